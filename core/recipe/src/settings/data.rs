//! `[data]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the samples come from. Published data sets have their official split. Of the others the
/// first half of the classes trains and the second half tests, so no test class is ever seen in
/// training.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum DataRecipe {
    /// Handwritten-like characters, drawn by the program: nothing to download.
    Strokes(StrokesRecipe),
    /// Precomputed features from a safetensors file.
    Features(FeaturesRecipe),
    /// Pictures, one folder for each class.
    Folder(FolderRecipe),
    /// Pictures listed in a CSV file of `path,label` or `path,label,split`.
    Csv(CsvRecipe),
    /// CUB-200-2011: 200 species of birds.
    #[serde(rename = "cub200")]
    Cub200(PublishedRecipe),
    /// Cars-196: 196 models of cars, with `cars_annos.mat` or the devkit's annotations.
    #[serde(rename = "cars196")]
    Cars196(PublishedRecipe),
    /// Stanford Online Products: 22,634 products.
    Sop(PublishedRecipe),
    /// In-Shop Clothes Retrieval: 7,982 items, with its official queries and gallery.
    Inshop(PublishedRecipe),
}

/// How the samples of a source without an official split are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitRecipe {
    /// By class: the first half of the classes trains, the second half tests.
    #[default]
    Classes,
    /// Not at all: every sample trains, and the same samples are evaluated with the labels they
    /// came with. That says nothing about new classes.
    None,
}

/// Settings of the embedded data set `strokes`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StrokesRecipe {
    /// Number of classes, training and test together.
    #[schemars(range(min = 4, max = 1_000_000))]
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

/// Settings of the data source `folder`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FolderRecipe {
    /// A folder with one folder for each class, which has the class's name and holds its pictures,
    /// in further folders if you like; relative to the recipe that names it. Classes count in the
    /// order of their names.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// What trains and what tests.
    #[serde(default)]
    pub split: SplitRecipe,
}

/// Settings of the data source `csv`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CsvRecipe {
    /// A CSV file with the path and the label of each picture, and optionally whether it belongs to
    /// `train` or `test` (or `query` and `gallery`, where queries search the gallery alone);
    /// relative to the recipe that names it. A first line may name the columns `path`, `label` and
    /// `split`. Labels that are whole numbers count in their order, names in that of the alphabet.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// The folder the file's paths are relative to. Default: the folder of the file.
    #[schemars(extend("x-path" = true))]
    pub root: Option<PathBuf>,
    /// What trains and what tests, where the file does not say it.
    #[serde(default)]
    pub split: SplitRecipe,
}

/// Settings of published data sets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedRecipe {
    /// The folder with its lists and pictures as they are published; relative to the recipe that
    /// names it.
    #[schemars(extend("x-path" = true))]
    pub path: PathBuf,
    /// Refuse the data set if it has more or fewer classes or images than the published one.
    #[serde(default = "yes")]
    pub check_counts: bool,
}

fn yes() -> bool {
    true
}
