//! `[eval]` and `[track]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When to cluster the test embeddings for NMI and AMI, the slowest part of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterWhen {
    /// At every evaluation.
    Always,
    /// Before training and after the last epoch.
    #[default]
    Ends,
    /// Never.
    Never,
}

/// The classes to evaluate on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalOn {
    /// The test classes; training uses all training classes.
    #[default]
    Test,
    /// Classes held out from training, with the labels that training would have seen.
    Validation,
}

/// The network to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalNetwork {
    /// The network as trained.
    #[default]
    Trained,
    /// Its exponential moving average, see `train.ema`.
    Ema,
}

/// What to evaluate, and when.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalRecipe {
    /// The classes to evaluate on. To choose settings, use `validation`: the last of the training
    /// classes, held out from training. Test classes are for final results.
    pub on: EvalOn,
    /// The network to evaluate: the trained one, or its moving average (`train.ema`).
    pub network: EvalNetwork,
    /// Fraction of the training classes that `on = "validation"` holds out.
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub validation_share: f64,
    /// Epochs between evaluations. The untrained model and the last epoch are always evaluated.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// The values of K for Recall@K.
    #[schemars(inner(range(min = 1)))]
    pub recall_at: Vec<usize>,
    /// When to cluster for NMI and AMI.
    pub cluster: ClusterWhen,
    /// Number of k-means restarts over which NMI and AMI are averaged.
    #[schemars(range(min = 1))]
    pub restarts: usize,
    /// Batch size of evaluation. It affects speed and memory, and results only by rounding. Default: 32 on a CPU,
    /// where activations of larger batches do not fit into the cache; on a GPU more, depending on the image size.
    #[schemars(range(min = 1))]
    pub batch_size: Option<i64>,
}

impl Default for EvalRecipe {
    fn default() -> Self {
        Self {
            on: EvalOn::Test,
            network: EvalNetwork::Trained,
            validation_share: 0.2,
            every: 1,
            recall_at: vec![1, 2, 4, 8],
            cluster: ClusterWhen::Ends,
            restarts: 3,
            batch_size: None,
        }
    }
}

impl EvalRecipe {
    /// The default of `batch_size` on a CPU.
    pub const CPU_BATCH: i64 = 32;

    /// Number of training classes held out for validation: the share, rounded, with at least two
    /// classes on each side, since a single class has no negatives. Needs four classes.
    pub fn validation_classes(&self, classes: usize) -> usize {
        ((self.validation_share * classes as f64).round() as usize).clamp(2, classes.saturating_sub(2).max(2))
    }
}

/// What to write for TensorBoard besides scalars.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrackRecipe {
    /// Histograms of similarities and weights.
    pub histograms: bool,
    /// Image grids of queries with their nearest neighbours.
    pub images: bool,
    /// Test embeddings for the projector, after the last epoch.
    pub projector: bool,
}

impl Default for TrackRecipe {
    fn default() -> Self {
        Self { histograms: true, images: true, projector: true }
    }
}
