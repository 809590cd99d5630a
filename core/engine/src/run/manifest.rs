//! `manifest.json` and `result.json`: the conditions of a run and its result.

use crate::backbone::WeightsReport;
use crate::data::BadFile;
use crate::eval::Metrics;
use crate::recipe::PluginFile;
use crate::{Error, Result, any_float, files};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Version of the layout of a run folder.
pub const FORMAT: u32 = 1;

/// Conditions that must be equal for runs to be compared: everything but the method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Hash of the data set and its split.
    pub data: String,
    /// Hash of the training labels as they were used, and of the excluded samples.
    pub labels: String,
    /// Hash of the initial parameters of the network.
    pub initialisation: String,
}

/// The conditions of a run; written before training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout of a run folder.
    pub format: u32,
    /// Version of curricle.
    pub curricle: String,
    /// Version of libtorch.
    pub libtorch: String,
    /// Hash of the recipe without its seed.
    pub recipe_hash: String,
    /// The seed.
    pub seed: u64,
    /// The device it was trained on.
    pub device: String,
    /// Number of libtorch threads.
    pub threads: usize,
    /// The plugins that were loaded, with the hashes of their files.
    #[serde(default)]
    pub plugins: Vec<PluginFile>,
    /// Hash of the recipe without its seed and the contents of its plugins.
    #[serde(default)]
    pub recipe_hash_without_plugins: String,
    /// Where the backbone's pretrained weights came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsReport>,
    /// Conditions that must be equal in a comparison.
    pub conditions: Conditions,
    /// Bad files that were skipped in the data set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_files: Vec<BadFile>,
}

impl Manifest {
    /// Refuses to resume a run that was started under different conditions.
    pub fn check_resumable(&self, started: &Manifest, folder: &Path) -> Result<()> {
        // The GPU's index does not matter: a run on `cuda:0` may be resumed on `cuda:1`.
        let kind = |device: &str| device.split(':').next().unwrap_or_default().to_string();
        let fields = [
            ("a different libtorch version", &started.libtorch, &self.libtorch),
            ("a different device", &kind(&started.device), &kind(&self.device)),
            ("different data", &started.conditions.data, &self.conditions.data),
            ("different training labels", &started.conditions.labels, &self.conditions.labels),
            ("different initial parameters", &started.conditions.initialisation, &self.conditions.initialisation),
        ];
        match fields.into_iter().find(|(_, before, now)| before != now) {
            Some((what, before, now)) => Err(Error::Failed(format!(
                "`{}` was started with {what} (`{before}`, now `{now}`) and cannot be resumed; use `--force` to start \
                 over",
                folder.display()
            ))),
            None => Ok(()),
        }
    }
}

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
}

impl RunResult {
    /// Reads the result from a run folder; `None` if the run is not finished.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("result.json");
        let unusable = |what: &str| Error::Format {
            path: path.clone(),
            message: format!("{what}; repeat the run with `curricle run --force`"),
        };
        let result: Option<Self> = files::read_json(&path).map_err(|error| match error {
            Error::Format { message, .. } => unusable(&message),
            other => other,
        })?;
        match &result {
            Some(result) if result.format != FORMAT => {
                Err(unusable(&format!("has format {}; this version of curricle reads format {FORMAT}", result.format)))
            }
            _ => Ok(result),
        }
    }
}
