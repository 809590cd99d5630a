//! `[optimizer]`, `[groups]`, `[schedule]` and `[train]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The optimiser.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerRecipe {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Momentum.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Use Nesterov momentum.
        #[serde(default)]
        nesterov: bool,
        /// Weight decay (L2), added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// Adam.
    Adam {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay rates β₁, β₂ of the running averages of the gradient and its square.
        #[serde(default = "adam_betas")]
        #[schemars(inner(range(min = 0.0, max = 0.999999)))]
        betas: [f64; 2],
        /// ε, added to the denominator for numerical stability.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Weight decay (L2), added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay rates β₁, β₂ of the running averages of the gradient and its square.
        #[serde(default = "adam_betas")]
        #[schemars(inner(range(min = 0.0, max = 0.999999)))]
        betas: [f64; 2],
        /// ε, added to the denominator for numerical stability.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Weight decay, decoupled from the gradient.
        #[serde(default = "adamw_decay")]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// RMSprop.
    Rmsprop {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay rate α of the running average of the squared gradient.
        #[serde(default = "rmsprop_alpha")]
        #[schemars(range(min = 0.0, max = 1.0))]
        alpha: f64,
        /// ε, added to the denominator for numerical stability.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Momentum.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Weight decay (L2), added to the gradient.
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
    /// Factor on the optimiser's learning rate. Default: the factor that the loss declares, else 1.
    #[schemars(range(min = 0.0))]
    pub lr_scale: Option<f64>,
    /// Weight decay of this group. Default: the optimiser's.
    #[schemars(range(min = 0.0))]
    pub weight_decay: Option<f64>,
}

/// The learning-rate schedule after the warm-up.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleRecipe {
    /// Constant.
    #[default]
    Constant,
    /// Step decay: the learning rate is multiplied by a factor every few epochs.
    Step {
        /// Epochs between steps.
        #[schemars(range(min = 1))]
        every: u64,
        /// Factor on the learning rate at each step.
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Cosine annealing.
    Cosine {
        /// Final learning rate, as a fraction of the initial one.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        floor: f64,
    },
}

/// The training loop.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainRecipe {
    /// Number of epochs. Sample weights are updated after each.
    pub epochs: u64,
    /// Epochs of linear warm-up, in which the learning rate rises from 0.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub warmup_epochs: f64,
    /// Number of initial epochs in which the backbone is frozen and only the embedding layer and the
    /// loss's own tensors are trained.
    #[serde(default)]
    pub head_epochs: u64,
    /// Maximum gradient norm; larger gradients are scaled down to it. Default: no clipping.
    #[schemars(range(min = 0.0))]
    pub clip_norm: Option<f64>,
    /// Decay of an exponential moving average of the network's parameters, e.g. 0.999 (a mean teacher). Evaluation
    /// uses it with `eval.network = "ema"`, and losses and weight schemes can ask for its embeddings. Default: none.
    #[schemars(extend("minimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub ema: Option<f64>,
    /// Largest number of samples that the network computes at once, e.g. 32, for batches that do not fit into the
    /// GPU's memory. The gradients are those of the whole batch, as is the loss; the network computes every sample
    /// twice. Batch norm that is not frozen sees one micro-batch at a time. Default: the whole batch.
    #[schemars(range(min = 1))]
    pub micro_batch: Option<usize>,
    /// Steps between logged losses.
    #[serde(default = "log_every")]
    #[schemars(range(min = 1))]
    pub log_every: u64,
    /// Floating-point type of the network's computations. Parameters, embeddings, loss and
    /// optimiser are always f32.
    #[serde(default)]
    pub precision: Precision,
    /// On CUDA, allow TF32 (10 bits of mantissa) for convolutions in f32, as PyTorch does by default.
    /// Losses and evaluation never use it.
    #[serde(default = "tf32")]
    pub tf32: bool,
    /// On CUDA, make runs reproducible bit by bit, at some cost in speed. Runs on the CPU always are.
    #[serde(default)]
    pub deterministic: bool,
}

/// Floating-point types of the network's computations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with the range of f32.
    Bf16,
    /// 16 bits with more precision and less range: the loss is scaled, and steps with overflowing
    /// gradients are skipped.
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
