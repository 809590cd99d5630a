//! `[data]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the samples come from. Classes are split by their order: the first half trains, the
/// second half tests, so no test class is ever seen in training.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum DataRecipe {
    /// Handwritten-like characters, drawn by the program: nothing to download.
    Strokes(StrokesRecipe),
    /// Precomputed features from a safetensors file.
    Features(FeaturesRecipe),
}

/// Settings of the embedded data set `strokes`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StrokesRecipe {
    /// Number of classes, training and test together.
    #[schemars(range(min = 4))]
    pub classes: usize,
    /// Samples in each class.
    #[schemars(range(min = 2))]
    pub per_class: usize,
    /// Width and height of the images in pixels.
    #[schemars(range(min = 8, max = 256))]
    pub size: usize,
    /// How much re-drawings of one character differ; 1 is the standard difficulty.
    #[schemars(range(min = 0.0))]
    pub jitter: f64,
    /// Decides the characters and their drawings, apart from the run's `seed`, so that runs with
    /// different seeds share their data.
    pub seed: u64,
}

impl Default for StrokesRecipe {
    fn default() -> Self {
        Self { classes: 100, per_class: 40, size: 32, jitter: 1.0, seed: 0 }
    }
}

/// Settings of the data source `features`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeaturesRecipe {
    /// A safetensors file with `features [N,F]` (floats), `labels [N]` (integers) and optionally
    /// `paths` (UTF-8 text, one line for each row, as a u8 tensor; or a JSON array of texts in the
    /// file's metadata); relative to the recipe that names it.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
}
