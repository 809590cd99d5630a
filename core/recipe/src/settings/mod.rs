//! The tables of a recipe and their settings.
//!
//! The doc comments here are the reference: the JSON Schema, `curricle schema` and the error
//! messages are made from them. Tables of components (`[loss]`, `[sampler]`, `[weights]`) are
//! described by the components themselves.

mod component;
mod data;
mod evaluation;
mod images;
mod network;
mod noise;
mod normalise;
mod plugins;
mod training;

pub use component::ComponentRecipe;
pub use data::{CsvRecipe, DataRecipe, FeaturesRecipe, FolderRecipe, PublishedRecipe, SplitRecipe, StrokesRecipe};
pub use evaluation::{ClusterWhen, EvalOn, EvalRecipe, TrackRecipe};
pub use images::{CropRecipe, ImagesRecipe, Interpolation, JitterRecipe, OnBadImage};
pub use network::{BackboneRecipe, EmbeddingRecipe, PoolingRecipe, VisionRecipe};
pub use noise::{ListLabels, NoiseRecipe, UnknownLabels};
pub use normalise::{CustomNormalise, NormaliseRecipe};
pub use plugins::{PluginFile, PluginsRecipe};
pub use training::{GroupRecipe, OptimizerRecipe, Precision, ScheduleRecipe, TrainRecipe};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A whole recipe, every default filled in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the runs' folder. Default: the recipe's file name without `.toml`.
    pub name: String,
    /// A sentence for humans.
    #[serde(default)]
    pub description: String,
    /// What the method is called in tables. Default: the names of loss and weights.
    pub method: Option<String>,
    /// What the circumstances of a run are called in tables, such as `20 % noise`.
    pub case: Option<String>,
    /// Decides every random choice. Runs that differ in nothing else are repetitions.
    #[serde(default)]
    pub seed: u64,
    /// Libraries with further components.
    #[serde(default)]
    pub plugins: PluginsRecipe,
    /// What to learn from.
    pub data: DataRecipe,
    /// How pictures in files become what the network sees.
    #[serde(default)]
    pub images: ImagesRecipe,
    /// Label noise to inject into the training labels.
    #[serde(default)]
    pub noise: NoiseRecipe,
    /// The network.
    pub backbone: BackboneRecipe,
    /// The embedding on top of the network.
    #[serde(default)]
    pub embedding: EmbeddingRecipe,
    /// How batches are formed.
    pub sampler: ComponentRecipe,
    /// What is minimised.
    pub loss: ComponentRecipe,
    /// How much each training sample counts.
    #[serde(default = "uniform")]
    pub weights: ComponentRecipe,
    /// How parameters move.
    pub optimizer: OptimizerRecipe,
    /// Settings of single parameter groups: `backbone`, `embedding`, a tensor of the loss, or a part
    /// of the network by the beginning of its names, such as `"backbone.layer4"`.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupRecipe>,
    /// How the learning rate changes over training.
    #[serde(default)]
    pub schedule: ScheduleRecipe,
    /// How long to train.
    pub train: TrainRecipe,
    /// What to measure, and when.
    #[serde(default)]
    pub eval: EvalRecipe,
    /// What to write down besides numbers.
    #[serde(default)]
    pub track: TrackRecipe,
}

fn uniform() -> ComponentRecipe {
    ComponentRecipe { name: "uniform".into(), settings: Value::Object(serde_json::Map::new()) }
}
