//! What a run was made with, and what it came to.

use crate::backbone::WeightsReport;
use crate::data::BadFile;
use crate::eval::Metrics;
use crate::recipe::PluginFile;
use crate::{Error, Result, any_float, files};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Version of the layout of a run folder.
pub const FORMAT: u32 = 1;

/// The conditions that must agree between runs that are compared: everything but the method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Hash of the data set and its split.
    pub data: String,
    /// Hash of the training labels as they were used, and of the samples left out.
    pub labels: String,
    /// Hash of the initial parameters of the network.
    pub initialisation: String,
}

/// What a run was made with; written before training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout of a run folder.
    pub format: u32,
    /// Version of curricle.
    pub curricle: String,
    /// Version of libtorch.
    pub libtorch: String,
    /// Identity of the recipe without its seed.
    pub recipe_hash: String,
    /// The seed.
    pub seed: u64,
    /// Where it was trained.
    pub device: String,
    /// Threads of libtorch.
    pub threads: usize,
    /// The libraries that were loaded, and their contents.
    #[serde(default)]
    pub plugins: Vec<PluginFile>,
    /// Identity of the recipe without its seed and whatever is in its libraries.
    #[serde(default)]
    pub recipe_hash_without_plugins: String,
    /// Where the network's pretrained weights came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsReport>,
    /// What comparisons rely on.
    pub conditions: Conditions,
    /// Bad files that were left out of the data set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_files: Vec<BadFile>,
}

impl Manifest {
    /// Refuses to go on with a run that was begun under other conditions.
    pub fn check_resumable(&self, begun: &Manifest, folder: &Path) -> Result<()> {
        // Which of several GPUs it was does not matter: `cuda:0` may go on as `cuda:1`.
        let kind = |device: &str| device.split(':').next().unwrap_or_default().to_string();
        let fields = [
            ("libtorch", &begun.libtorch, &self.libtorch),
            ("device", &kind(&begun.device), &kind(&self.device)),
            ("data", &begun.conditions.data, &self.conditions.data),
            ("training labels", &begun.conditions.labels, &self.conditions.labels),
            ("initial parameters", &begun.conditions.initialisation, &self.conditions.initialisation),
        ];
        match fields.into_iter().find(|(_, before, now)| before != now) {
            Some((what, before, now)) => Err(Error::Failed(format!(
                "`{}` was begun with another {what} (`{before}`, now `{now}`) and cannot be gone on with; `--force` \
                 starts it anew",
                folder.display()
            ))),
            None => Ok(()),
        }
    }
}

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

impl RunResult {
    /// The result in the folder of a run, if it is finished.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("result.json");
        let unusable = |what: &str| Error::Format {
            path: path.clone(),
            message: format!("{what}; `curricle run` with `--force` makes the run anew"),
        };
        let result: Option<Self> = files::read_json(&path).map_err(|error| match error {
            Error::Format { message, .. } => unusable(&message),
            other => other,
        })?;
        match &result {
            Some(result) if result.format != FORMAT => {
                Err(unusable(&format!("has format {}, and this program reads format {FORMAT}", result.format)))
            }
            _ => Ok(result),
        }
    }
}
