//! The tables of a recipe and their settings.
//!
//! The doc comments are the reference manual: the JSON Schema, `curricle schema` and the error
//! messages are generated from them. Components describe their own tables (`[loss]`, `[sampler]`,
//! `[weights]`).

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
pub use evaluation::{ClusterWhen, EvalNetwork, EvalOn, EvalRecipe, TrackRecipe};
pub use images::{CropRecipe, ImagesRecipe, Interpolation, JitterRecipe, OnBadImage};
pub use network::{
    BackboneRecipe, EmbeddingRecipe, MlpActivation, PoolingRecipe, TokenPooling, TorchscriptRecipe, VisionRecipe,
    VitRecipe,
};
pub use noise::{ListLabels, NoiseRecipe, UnknownLabels};
pub use normalise::{CustomNormalise, NormaliseRecipe};
pub use plugins::{PluginFile, PluginsRecipe};
pub use training::{GroupRecipe, OptimizerRecipe, Precision, ScheduleRecipe, TrainRecipe};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A complete recipe, with all defaults filled in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the runs' folder. Default: the recipe's file name without `.toml`.
    pub name: String,
    /// A one-sentence description.
    #[serde(default)]
    pub description: String,
    /// Name of the method in tables. Default: the names of the loss and the weights.
    pub method: Option<String>,
    /// Name of the experimental condition in tables, such as `20 % noise`.
    pub case: Option<String>,
    /// Seed of all random choices. Runs that differ only in their seed are repetitions.
    #[serde(default)]
    pub seed: u64,
    /// Libraries with additional components.
    #[serde(default)]
    pub plugins: PluginsRecipe,
    /// The data set.
    pub data: DataRecipe,
    /// How image files are turned into network input.
    #[serde(default)]
    pub images: ImagesRecipe,
    /// Label noise to inject into the training labels.
    #[serde(default)]
    pub noise: NoiseRecipe,
    /// The backbone network.
    pub backbone: BackboneRecipe,
    /// The embedding layer on top of the backbone.
    #[serde(default)]
    pub embedding: EmbeddingRecipe,
    /// The batch sampler.
    pub sampler: ComponentRecipe,
    /// The loss function.
    pub loss: ComponentRecipe,
    /// The weight scheme: how much each training sample counts.
    #[serde(default = "uniform")]
    pub weights: ComponentRecipe,
    /// The optimiser.
    pub optimizer: OptimizerRecipe,
    /// Settings of single parameter groups: `backbone`, `embedding`, a tensor of the loss, or a part
    /// of the network by the prefix of its parameter names, such as `"backbone.layer4"`.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupRecipe>,
    /// The learning-rate schedule.
    #[serde(default)]
    pub schedule: ScheduleRecipe,
    /// The training loop.
    pub train: TrainRecipe,
    /// What to evaluate, and when.
    #[serde(default)]
    pub eval: EvalRecipe,
    /// What to log to TensorBoard besides scalars.
    #[serde(default)]
    pub track: TrackRecipe,
}

fn uniform() -> ComponentRecipe {
    ComponentRecipe { name: "uniform".into(), settings: Value::Object(serde_json::Map::new()) }
}
