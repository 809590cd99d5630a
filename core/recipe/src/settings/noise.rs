//! `[noise]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
