//! The tables of a recipe and their settings.
//!
//! The doc comments here are the reference: the JSON Schema, `curricle schema` and the error
//! messages are made from them. Tables of components (`[loss]`, `[sampler]`, `[weights]`) are
//! described by the components themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A whole recipe, every default filled in.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the runs' folder. Default: the recipe's file name without `.toml`.
    pub name: String,
    /// A sentence for humans.
    #[serde(default)]
    pub description: String,
    /// Decides every random choice. Runs that differ in nothing else are repetitions.
    #[serde(default)]
    pub seed: u64,
    /// Libraries with further components.
    #[serde(default)]
    pub plugins: PluginsRecipe,
    /// What to learn from.
    pub data: DataRecipe,
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
    /// Settings of single parameter groups: `backbone`, `embedding`, or a tensor of the loss.
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

/// Libraries with further losses, samplers and weight schemes. A library is arbitrary code: nothing
/// is loaded that is not named here or with `--plugin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsRecipe {
    /// Their files, relative to the recipe that names them.
    pub paths: Vec<PluginFile>,
}

/// A library's file. A recipe may also give the path alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginFile {
    /// The file.
    pub path: PathBuf,
    /// Its SHA-256; another file is refused.
    pub sha256: String,
}

impl JsonSchema for PluginFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PluginFile".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let path = "The file, relative to the recipe that names it.";
        schemars::json_schema!({
            "description": "A library's file, with or without the SHA-256 it must have.",
            "anyOf": [
                { "description": path, "type": "string", "x-path": true },
                {
                    "type": "object",
                    "properties": {
                        "path": { "description": path, "type": "string", "x-path": true },
                        "sha256": { "description": "Its SHA-256; another file is refused.", "type": "string" },
                    },
                    "required": ["path"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

fn uniform() -> ComponentRecipe {
    ComponentRecipe { name: "uniform".into(), settings: Value::Object(serde_json::Map::new()) }
}

/// A component by name, and its settings. In a recipe both stand in one table.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentRecipe {
    /// The component's name.
    pub name: String,
    /// Its settings, defaults filled in, as a JSON object without `name`.
    pub settings: Value,
}

impl Serialize for ComponentRecipe {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serde_json::Map::new();
        table.insert("name".into(), self.name.clone().into());
        if let Value::Object(settings) = &self.settings {
            table.extend(settings.clone());
        }
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ComponentRecipe {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = serde_json::Map::deserialize(deserializer)?;
        match table.shift_remove("name") {
            Some(Value::String(name)) => Ok(Self { name, settings: Value::Object(table) }),
            _ => Err(serde::de::Error::missing_field("name")),
        }
    }
}

impl JsonSchema for ComponentRecipe {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Component".into()
    }

    // The loader replaces this by one alternative for each registered component.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "required": ["name"] })
    }
}

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

/// Wrong labels put into the training set on purpose.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum NoiseRecipe {
    /// Labels stay as they are.
    #[default]
    None,
    /// In every class the same share of samples moves to other classes, chosen uniformly.
    Uniform {
        /// Share of samples whose label is changed.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Decides which labels change. Default: the run's `seed`.
        seed: Option<u64>,
        /// Leave the changed samples out of training, as somebody who knew them would: the upper
        /// bound of every method.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Samples of each class move to the next class.
    Pair {
        /// Share of samples whose label is changed.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Decides which labels change. Default: the run's `seed`.
        seed: Option<u64>,
        /// Leave the changed samples out of training.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Whole classes are dissolved into others, cluster by cluster.
    SmallCluster {
        /// Share of samples whose label is changed.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Similar samples that move together; published lists have about 2.
        #[serde(default = "two")]
        #[schemars(range(min = 1))]
        cluster_size: usize,
        /// Decides which labels change. Default: the run's `seed`.
        seed: Option<u64>,
        /// Leave the changed samples out of training.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Labels from a CSV file of `path,label`, one line for each training sample.
    List {
        /// The file; relative to the recipe that names it.
        #[schemars(extend("x-path" = true))]
        path: PathBuf,
        /// The label that stands for the first class in the file.
        #[serde(default)]
        first_label: i64,
        /// How the file names classes.
        #[serde(default)]
        labels: ListLabels,
        /// What to do with a label that is no training class.
        #[serde(default)]
        unknown_labels: UnknownLabels,
        /// Leave the changed samples out of training.
        #[serde(default)]
        remove_flipped: bool,
    },
}

/// How a list of labels names classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListLabels {
    /// By their number, counted from `first_label` in the order of training classes.
    #[default]
    Numbers,
    /// By their name.
    Names,
    /// In some order of its own: a label means the class that most of its samples are of.
    Majority,
}

/// What to do with a label that is no training class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownLabels {
    /// Refuse the list.
    #[default]
    Error,
    /// Make each such label a class of its own.
    Class,
}

fn two() -> usize {
    2
}

/// The network below the embedding.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum BackboneRecipe {
    /// Four blocks of convolution, batch norm, ReLU and pooling, for small images.
    Conv4 {
        /// Channels of each block.
        #[serde(default = "conv4_width")]
        #[schemars(range(min = 1))]
        width: i64,
    },
    /// No network: the embedding layer sees the features.
    Linear,
    /// Fully connected layers with ReLU.
    Mlp {
        /// Sizes of the hidden layers.
        #[serde(default = "mlp_hidden")]
        #[schemars(inner(range(min = 1)))]
        hidden: Vec<i64>,
        /// Share of hidden activations dropped during training.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 0.99))]
        dropout: f64,
    },
}

fn conv4_width() -> i64 {
    32
}

fn mlp_hidden() -> Vec<i64> {
    vec![512]
}

/// The embedding layer; its output is scaled to unit length.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingRecipe {
    /// Number of dimensions.
    #[schemars(range(min = 2))]
    pub size: i64,
}

impl Default for EmbeddingRecipe {
    fn default() -> Self {
        Self { size: 64 }
    }
}

/// How parameters move.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerRecipe {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Share of the last step that is taken again.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Look ahead along the momentum.
        #[serde(default)]
        nesterov: bool,
        /// Pull of parameters towards 0, added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// Adam.
    Adam {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay of the two running averages.
        #[serde(default = "adam_betas")]
        #[schemars(inner(range(min = 0.0, max = 0.999999)))]
        betas: [f64; 2],
        /// Keeps the division finite.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Pull of parameters towards 0, added to the gradient.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay of the two running averages.
        #[serde(default = "adam_betas")]
        #[schemars(inner(range(min = 0.0, max = 0.999999)))]
        betas: [f64; 2],
        /// Keeps the division finite.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Pull of parameters towards 0, apart from the gradient.
        #[serde(default = "adamw_decay")]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
    },
    /// RMSprop.
    Rmsprop {
        /// Learning rate.
        #[schemars(range(min = 0.0))]
        lr: f64,
        /// Decay of the running average of squares.
        #[serde(default = "rmsprop_alpha")]
        #[schemars(range(min = 0.0, max = 1.0))]
        alpha: f64,
        /// Keeps the division finite.
        #[serde(default = "adam_eps")]
        #[schemars(range(min = 0.0))]
        eps: f64,
        /// Share of the last step that is taken again.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Pull of parameters towards 0, added to the gradient.
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
    /// Times the optimiser's learning rate. Default: what the loss declares, else 1.
    #[schemars(range(min = 0.0))]
    pub lr_scale: Option<f64>,
    /// Instead of the optimiser's weight decay.
    #[schemars(range(min = 0.0))]
    pub weight_decay: Option<f64>,
}

/// How the learning rate changes over training, after the warm-up.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleRecipe {
    /// Stays as it is.
    #[default]
    Constant,
    /// Multiplied by a factor every so many epochs.
    Step {
        /// Epochs between two steps.
        #[schemars(range(min = 1))]
        every: u64,
        /// The factor.
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Falls along half a cosine.
    Cosine {
        /// Share of the learning rate that is left at the end.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        floor: f64,
    },
}

/// How long to train.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainRecipe {
    /// Passes over the training set. Weights are updated after each.
    pub epochs: u64,
    /// Epochs over which the learning rate rises from 0, linearly.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub warmup_epochs: f64,
    /// Gradients longer than this are shortened to it.
    #[schemars(range(min = 0.0))]
    pub clip_norm: Option<f64>,
    /// Steps between two logged losses.
    #[serde(default = "log_every")]
    #[schemars(range(min = 1))]
    pub log_every: u64,
}

fn log_every() -> u64 {
    10
}

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

/// What to measure, and when.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalRecipe {
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
        Self { every: 1, recall_at: vec![1, 2, 4, 8], cluster: ClusterWhen::Ends, restarts: 3, batch_size: 256 }
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
