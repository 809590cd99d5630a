//! `manifest.json`: the conditions of a run.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    pub plugins: Vec<PluginHash>,
    /// Hash of the recipe without its seed and the contents of its plugins.
    #[serde(default)]
    pub recipe_hash_without_plugins: String,
    /// The settings of the backbone as built: with what its pretrained weights decided, such as the pixel
    /// normalisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backbone: Option<serde_json::Value>,
    /// Where the backbone's pretrained weights came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsReport>,
    /// Conditions that must be equal in a comparison.
    pub conditions: Conditions,
    /// Files of the data set that were skipped because they could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_files: Vec<SkippedFile>,
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
            Some((what, before, now)) => Err(Error::NotResumable {
                folder: folder.to_path_buf(),
                what,
                before: before.clone(),
                now: now.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// Number of names shown of a longer list.
const SHOWN: usize = 5;

/// Where the weights of a network came from, and which tensors matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightsReport {
    /// The file.
    pub path: PathBuf,
    /// Hash of its contents.
    pub sha256: String,
    /// Number of tensors in the network, all of which were in the file.
    pub matched: usize,
    /// The prefix of the network's names in the file, such as `module.`.
    pub prefix: String,
    /// Tensors in the file that the network does not use, such as those of a classifier.
    pub left_over: Vec<String>,
    /// Number of these inside modules of the network rather than in a classifier: if any, the file is from
    /// a larger network.
    #[serde(default)]
    pub left_over_inside: usize,
    /// Whose parameter names the file has, where several are known, such as `DINOv2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

impl WeightsReport {
    /// A one-line summary of matched and unused tensors.
    pub fn sentence(&self) -> String {
        let below = if self.prefix.is_empty() { String::new() } else { format!(" under `{}`", self.prefix) };
        let mut modules: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &self.left_over {
            *modules.entry(name.rsplit_once('.').map_or(name.as_str(), |(module, _)| module)).or_default() += 1;
        }
        let modules: Vec<_> = modules.iter().map(|(module, count)| format!("`{module}` ({count})")).collect();
        let rest = match modules.len() {
            0 => "none unused".to_string(),
            count if count <= SHOWN => format!("unused: {}", modules.join(", ")),
            count => format!("unused: {} and {} more", modules[..SHOWN].join(", "), count - SHOWN),
        };
        let names = self.publisher.as_ref().map(|publisher| format!("names of {publisher}, ")).unwrap_or_default();
        format!("weights `{}`: {names}all {} tensors matched{below}; {rest}", self.path.display(), self.matched)
    }
}

/// A plugin that was loaded, and the hash of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginHash {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of its contents.
    pub sha256: String,
}

/// A file of the data set that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFile {
    /// Its path, relative to the folder of the data set.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}
