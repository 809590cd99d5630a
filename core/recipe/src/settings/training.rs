//! `[optimizer]`, `[groups]`, `[schedule]` and `[train]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How parameters move.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerRecipe {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Share of the last step that is taken again.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Look ahead along the momentum.
        #[serde(default)]
        nesterov: bool,
        /// Pull of parameters towards 0, added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// Adam.
    Adam {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay of the two running averages.
        #[serde(default = "adam_betas")]
        #[schemars(inner(range(min = 0.0, max = 0.999999)))]
        betas: [f64; 2],
        /// Keeps the division finite.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Pull of parameters towards 0, added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay of the two running averages.
        #[serde(default = "adam_betas")]
        #[schemars(inner(range(min = 0.0, max = 0.999999)))]
        betas: [f64; 2],
        /// Keeps the division finite.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Pull of parameters towards 0, apart from the gradient.
        #[serde(default = "adamw_decay")]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// RMSprop.
    Rmsprop {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay of the running average of squares.
        #[serde(default = "rmsprop_alpha")]
        #[schemars(range(min = 0.0, max = 1.0))]
        alpha: f64,
        /// Keeps the division finite.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Share of the last step that is taken again.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Pull of parameters towards 0, added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
}

fn adam_betas() -> [f64; 2] {
    [0.9, 0.999]
}

fn adam_eps() -> f64 {
    1e-8
}

fn adamw_decay() -> f64 {
    0.01
}

fn rmsprop_alpha() -> f64 {
    0.99
}

/// Settings of one parameter group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GroupRecipe {
    /// Times the optimiser's learning rate. Default: what the loss declares, else 1.
    #[schemars(range(min = 0.0))]
    pub lr_scale: Option<f64>,
    /// Instead of the optimiser's weight decay.
    #[schemars(range(min = 0.0))]
    pub weight_decay: Option<f64>,
}

/// How the learning rate changes over training, after the warm-up.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleRecipe {
    /// Stays as it is.
    #[default]
    Constant,
    /// Multiplied by a factor every so many epochs.
    Step {
        /// Epochs between two steps.
        #[schemars(range(min = 1))]
        every: u64,
        /// The factor.
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Falls along half a cosine.
    Cosine {
        /// Share of the learning rate that is left at the end.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        floor: f64,
    },
}

/// How long to train.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainRecipe {
    /// Passes over the training set. Weights are updated after each.
    pub epochs: u64,
    /// Epochs over which the learning rate rises from 0, linearly.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub warmup_epochs: f64,
    /// Epochs in which only the embedding and the loss's own tensors are trained, while the network
    /// rests.
    #[serde(default)]
    pub head_epochs: u64,
    /// Gradients longer than this are shortened to it.
    #[schemars(range(min = 0.0))]
    pub clip_norm: Option<f64>,
    /// Steps between two logged losses.
    #[serde(default = "log_every")]
    #[schemars(range(min = 1))]
    pub log_every: u64,
    /// Type of the numbers that the network computes with. Parameters, embeddings, loss and
    /// optimiser are f32 in any case.
    #[serde(default)]
    pub precision: Precision,
    /// On CUDA, convolutions of f32 may round their inputs to TF32's 10 bits of mantissa, as is
    /// PyTorch's default. Losses and evaluation never do.
    #[serde(default = "tf32")]
    pub tf32: bool,
    /// On CUDA, the same run gives the same bits, at some cost in speed. The CPU always does.
    #[serde(default)]
    pub deterministic: bool,
}

/// Types of numbers for networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with the range of f32.
    Bf16,
    /// 16 bits with more precision and less range: the loss is scaled, and steps whose gradients
    /// overflow are skipped.
    F16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

fn tf32() -> bool {
    true
}

fn log_every() -> u64 {
    10
}
