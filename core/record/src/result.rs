//! `result.json`: what a run came to.

use crate::{Conditions, Metrics, any_float};
use serde::{Deserialize, Serialize};

/// What a run came to; written last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of the layout of a run folder.
    pub format: u32,
    /// Name of the recipe.
    pub name: String,
    /// Identity of the recipe without its seed.
    pub recipe_hash: String,
    /// What the method is called in tables.
    #[serde(default)]
    pub method: Option<String>,
    /// What the circumstances are called in tables.
    #[serde(default)]
    pub case: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The loss's name.
    pub loss: String,
    /// The weight scheme's name.
    pub weights: String,
    /// Epochs trained.
    pub epochs: u64,
    /// Steps taken.
    pub steps: u64,
    /// The model before training.
    pub untrained: Metrics,
    /// The model after the last epoch.
    pub trained: Metrics,
    /// Mean loss of the last epoch.
    #[serde(with = "any_float")]
    pub final_loss: f64,
    /// The weight scheme's last numbers, and how well it found the wrong labels.
    #[serde(with = "any_float::named")]
    pub weighting: Vec<(String, f64)>,
    /// What comparisons rely on.
    pub conditions: Conditions,
    /// Hash of all batches of all epochs.
    pub batches: String,
    /// Seconds spent training, weighting and evaluating.
    pub seconds: f64,
}

/// The name of a method that its recipe does not name.
pub fn default_method(loss: &str, weights: &str) -> String {
    if matches!(weights, "" | "uniform") { loss.into() } else { format!("{loss} + {weights}") }
}
