//! `[eval]` and `[track]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When to cluster the test embeddings for NMI and AMI; it takes longer than all else.
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

/// The classes to measure on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalOn {
    /// The test classes; training has all training classes.
    #[default]
    Test,
    /// Classes taken away from training, with their labels as training would have seen them.
    Validation,
}

/// What to measure, and when.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalRecipe {
    /// Which classes to measure on. To choose settings use `validation`: the last of the training
    /// classes, on which the model is then not trained. Test classes are for the final numbers.
    pub on: EvalOn,
    /// Share of the training classes that `on = "validation"` sets aside.
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub validation_share: f64,
    /// Epochs between two evaluations; the untrained model and the last epoch always are.
    #[schemars(range(min = 1))]
    pub every: u64,
    /// The values of K for Recall@K.
    #[schemars(inner(range(min = 1)))]
    pub recall_at: Vec<usize>,
    /// When to cluster for NMI and AMI.
    pub cluster: ClusterWhen,
    /// Restarts of k-means over which NMI and AMI are averaged.
    #[schemars(range(min = 1))]
    pub restarts: usize,
    /// Samples in one forward pass.
    #[schemars(range(min = 1))]
    pub batch_size: i64,
}

impl Default for EvalRecipe {
    fn default() -> Self {
        Self {
            on: EvalOn::Test,
            validation_share: 0.2,
            every: 1,
            recall_at: vec![1, 2, 4, 8],
            cluster: ClusterWhen::Ends,
            restarts: 3,
            batch_size: 256,
        }
    }
}

impl EvalRecipe {
    /// How many of the training classes are set aside for validation: the share, rounded, and at
    /// least two on each side, since one class alone has nothing to be compared with. Needs four
    /// classes.
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
    /// Grids of queries with their nearest neighbours.
    pub images: bool,
    /// Test embeddings for the projector, after the last epoch.
    pub projector: bool,
}

impl Default for TrackRecipe {
    fn default() -> Self {
        Self { histograms: true, images: true, projector: true }
    }
}
