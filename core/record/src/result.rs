//! `result.json`: the result of a run.

use crate::{Conditions, Metrics, any_float};
use serde::{Deserialize, Serialize};

/// The result of a run; written last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of the layout of a run folder.
    pub format: u32,
    /// Name of the recipe.
    pub name: String,
    /// Hash of the recipe without its seed.
    pub recipe_hash: String,
    /// Name of the method in tables.
    #[serde(default)]
    pub method: Option<String>,
    /// Name of the case in tables.
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
    /// Metrics before training.
    pub untrained: Metrics,
    /// Metrics after the last epoch.
    pub trained: Metrics,
    /// Mean loss of the last epoch.
    #[serde(with = "any_float")]
    pub final_loss: f64,
    /// The weight scheme's last scalars, and how well it detected the flipped labels.
    #[serde(with = "any_float::named")]
    pub weighting: Vec<(String, f64)>,
    /// Conditions that must be equal in a comparison.
    pub conditions: Conditions,
    /// Hash of all batches of all epochs.
    pub batches: String,
    /// Seconds spent on training, weight updates and evaluation.
    pub seconds: f64,
    /// BLAKE3 of `model.safetensors`; empty in results of earlier versions.
    #[serde(default)]
    pub model_blake3: String,
}

/// The name in tables of a method that its recipe does not name.
pub fn default_method(loss: &str, weights: &str) -> String {
    if matches!(weights, "" | "uniform") { loss.into() } else { format!("{loss} + {weights}") }
}
