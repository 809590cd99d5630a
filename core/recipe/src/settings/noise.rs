//! `[noise]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Label noise to inject into the training labels.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum NoiseRecipe {
    /// No label noise.
    #[default]
    None,
    /// Symmetric noise: in every class, the same fraction of samples is relabelled to other
    /// classes, chosen uniformly.
    Uniform {
        /// Fraction of samples whose label is flipped.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Seed that decides which labels are flipped. Default: the run's `seed`.
        seed: Option<u64>,
        /// Exclude flipped samples from training, as an oracle would: the upper bound of every
        /// method.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Pair noise: samples of each class are relabelled to the next class.
    Pair {
        /// Fraction of samples whose label is flipped.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Seed that decides which labels are flipped. Default: the run's `seed`.
        seed: Option<u64>,
        /// Exclude flipped samples from training.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Instance-dependent noise: in every class, the same fraction of samples is relabelled to classes
    /// that resemble them under the initial network.
    Similar {
        /// Fraction of samples whose label is flipped.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Number of most similar classes that a flipped sample may go to, with equal chance.
        #[serde(default = "three")]
        #[schemars(range(min = 1))]
        classes: usize,
        /// Seed that decides which labels are flipped, and of the initial network. Default: the run's
        /// `seed`.
        seed: Option<u64>,
        /// Exclude flipped samples from training.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Small-cluster noise: whole classes are dissolved into others, cluster by cluster.
    SmallCluster {
        /// Fraction of samples whose label is flipped.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
        /// Number of similar samples that are relabelled together. Published lists have about 2.
        #[serde(default = "two")]
        #[schemars(range(min = 1))]
        cluster_size: usize,
        /// Seed that decides which labels are flipped. Default: the run's `seed`.
        seed: Option<u64>,
        /// Exclude flipped samples from training.
        #[serde(default)]
        remove_flipped: bool,
    },
    /// Labels from a CSV file of `path,label`, one line per training sample.
    List {
        /// The file; relative to the recipe that names it.
        #[schemars(extend("x-path" = true))]
        path: PathBuf,
        /// The label of the first class in the file.
        #[serde(default)]
        first_label: i64,
        /// How the file identifies classes.
        #[serde(default)]
        labels: ListLabels,
        /// What to do with a label that is not a training class.
        #[serde(default)]
        unknown_labels: UnknownLabels,
        /// Exclude flipped samples from training.
        #[serde(default)]
        remove_flipped: bool,
    },
}

/// How a list of labels identifies classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListLabels {
    /// By number, counted from `first_label` in the order of the training classes.
    #[default]
    Numbers,
    /// By name.
    Names,
    /// In arbitrary order: a label stands for the true class of most of its samples.
    Majority,
}

/// What to do with a label that is not a training class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownLabels {
    /// Refuse the list.
    #[default]
    Error,
    /// Treat each of these labels as an additional class.
    Class,
}

fn three() -> usize {
    3
}

fn two() -> usize {
    2
}
