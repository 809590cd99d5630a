//! `[data]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The data set. Published data sets use their official split. For the others, the first half of
/// the classes is the training set and the second half the test set, so test classes are never
/// seen in training.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum DataRecipe {
    /// Generated characters that look handwritten: nothing to download.
    Strokes(StrokesRecipe),
    /// Precomputed features from a safetensors file.
    Features(FeaturesRecipe),
    /// Images, one folder per class.
    Folder(FolderRecipe),
    /// Images listed in a CSV file of `path,label` or `path,label,split`.
    Csv(CsvRecipe),
    /// CUB-200-2011: 200 bird species.
    #[serde(rename = "cub200")]
    Cub200(PublishedRecipe),
    /// Cars-196: 196 car models, with `cars_annos.mat` or the devkit's annotations.
    #[serde(rename = "cars196")]
    Cars196(PublishedRecipe),
    /// Stanford Online Products: 22,634 products.
    Sop(PublishedRecipe),
    /// In-Shop Clothes Retrieval: 7,982 items, with the official query and gallery sets.
    Inshop(PublishedRecipe),
}

/// How to split a data source that has no official split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitRecipe {
    /// By class: the first half of the classes for training, the second half for testing.
    #[default]
    Classes,
    /// No split: all samples are used for training, and evaluation uses the same samples with
    /// their original labels. The results say nothing about new classes.
    None,
}

/// Settings of the built-in data set `strokes`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StrokesRecipe {
    /// Number of classes, training and test set together.
    #[schemars(range(min = 4, max = 1_000_000))]
    pub classes: usize,
    /// Samples per class.
    #[schemars(range(min = 2))]
    pub per_class: usize,
    /// Width and height of the images, in pixels.
    #[schemars(range(min = 8, max = 256))]
    pub size: usize,
    /// How much drawings of the same character vary; 1 is the standard difficulty.
    #[schemars(range(min = 0.0))]
    pub jitter: f64,
    /// Seed of the characters and their drawings. It is separate from the run's `seed`, so that
    /// runs with different seeds share their data.
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
    /// `paths` (UTF-8 text with one line per row, as a u8 tensor; or a JSON array of strings in the
    /// file's metadata); relative to the recipe that names it.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
}

/// Settings of the data source `folder`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderRecipe {
    /// A folder with one sub-folder per class, named after the class; images may be nested deeper.
    /// Relative to the recipe that names it. Classes are sorted by name.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// How to split the samples into training and test set.
    #[serde(default)]
    pub split: SplitRecipe,
}

/// Settings of the data source `csv`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CsvRecipe {
    /// A CSV file with the path and the label of each image, and optionally its split: `train` or
    /// `test` (or `query` and `gallery`, where queries search only the gallery); relative to the
    /// recipe that names it. A header line may name the columns `path`, `label` and `split`.
    /// Classes are sorted by number if all labels are whole numbers, else by name.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// The folder that paths in the file are relative to. Default: the folder of the CSV file.
    #[schemars(extend("x-path" = true))]
    pub root: Option<PathBuf>,
    /// How to split the samples if the file does not.
    #[serde(default)]
    pub split: SplitRecipe,
}

/// Settings of published data sets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRecipe {
    /// The folder with the data set's lists and images as published; relative to the recipe that
    /// names it.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// Refuse the data set if its number of classes or images differs from the published one.
    #[serde(default = "yes")]
    pub check_counts: bool,
}

fn yes() -> bool {
    true
}
