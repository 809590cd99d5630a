//! Loads trained models from a run folder or an exported file.

use super::checkpoint;
use crate::backbone::{Model, normalisation};
use crate::data::Layout;
use crate::{Error, Result, caught, tensor_file};
use curricle_recipe::{BackboneRecipe, EmbeddingRecipe, EvalNetwork, ImagesRecipe, Recipe};
use curricle_record::{RunFolder, files};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tch::{Device, Tensor};

/// Value of the `format` entry of an exported file.
const FORMAT: &str = "curricle model 1";

/// A trained model, ready to be built.
#[derive(Debug)]
pub struct SavedModel {
    /// Where it came from.
    pub path: PathBuf,
    /// The recipe of the run, if it came from one.
    pub recipe: Option<Recipe>,
    /// The network and its image preprocessing.
    pub settings: ModelSettings,
    tensors: HashMap<String, Tensor>,
}

/// The settings needed to use a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelSettings {
    /// The backbone. Its normalisation is always written, its pretrained weights never.
    pub backbone: BackboneRecipe,
    /// The embedding layer.
    pub embedding: EmbeddingRecipe,
    /// How image files are decoded and resized.
    pub images: ImagesRecipe,
}

impl SavedModel {
    /// Opens the folder of a run, one of its checkpoints, or a file that `curricle export` wrote.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::of_run(&RunFolder::new(path), None);
        }
        match RunFolder::of_model_file(path) {
            Some(folder) => Self::of_run(&folder, Some(path)),
            None => Self::exported(path),
        }
    }

    /// The model of a run: from the given file in its folder, else the trained model, else the last
    /// checkpoint.
    fn of_run(folder: &RunFolder, file: Option<&Path>) -> Result<Self> {
        let path = folder.recipe();
        if !path.exists() {
            return Err(Error::Usage(format!(
                "`{}` is not a run folder: it has no `recipe.toml`. A run folder looks like \
                 `runs/<recipe>/<method>-<hash>/seed-0`",
                folder.path().display()
            )));
        }
        let recipe: Recipe = serde_json::from_value(folder.read_settings()?)
            .map_err(|e| Error::format(path, format!("is not a resolved recipe: {e}")))?;
        let trained = folder.model();
        let file = file.or(trained.exists().then_some(trained.as_path()));
        let tensors = if let Some(file) = file {
            if file == trained {
                check_unchanged(folder, file)?;
                tensor_file::read(file)?.0
            } else {
                checkpoint::read(file)?.tensors
            }
        } else if let Some(checkpoint) = checkpoint::latest(&folder.checkpoints())? {
            tracing::warn!(
                "the run in `{}` is not finished; using its model after step {}",
                folder.path().display(),
                checkpoint.position.global_step
            );
            checkpoint.tensors
        } else {
            let message = "has neither a trained model nor a checkpoint";
            return Err(Error::format(folder.path(), message));
        };
        let prefix = match recipe.eval.network {
            EvalNetwork::Trained => "model.",
            EvalNetwork::Ema => "ema.",
        };
        let own = |(name, tensor): (String, Tensor)| Some((name.strip_prefix(prefix)?.to_string(), tensor));
        let settings = ModelSettings {
            backbone: built(folder, &recipe)?,
            embedding: recipe.embedding.clone(),
            images: recipe.images.clone(),
        };
        let tensors = tensors.into_iter().filter_map(own).collect();
        Ok(Self { path: folder.path().to_path_buf(), recipe: Some(recipe), settings, tensors })
    }

    fn exported(path: &Path) -> Result<Self> {
        let (tensors, metadata) = tensor_file::read(path)?;
        let wrong = |message: String| Error::format(path, message);
        if metadata.get("format").map(String::as_str) != Some(FORMAT) {
            return Err(wrong(
                "was not written by `curricle export --format safetensors`; pass such a file, a run folder, or a file \
                 in its `checkpoints`"
                    .into(),
            ));
        }
        let settings = metadata.get("settings").map(String::as_str).unwrap_or_default();
        let settings = serde_json::from_str(settings).map_err(|e| wrong(format!("has invalid settings: {e}")))?;
        let named = |(name, tensor): (String, Tensor)| {
            let own = if name.starts_with("embedding.") { name } else { format!("backbone.{name}") };
            (own, tensor)
        };
        let tensors = tensors.into_iter().map(named).collect();
        Ok(Self { path: path.to_path_buf(), recipe: None, settings, tensors })
    }

    /// Builds the model on a device.
    pub fn build(&self, device: Device) -> Result<Model> {
        let ModelSettings { backbone, embedding, .. } = &self.settings;
        let failed = |error| match error {
            mismatch @ (Error::MissingTensor(_) | Error::TensorShape { .. }) => {
                Error::format(&self.path, mismatch.to_string())
            }
            other => other,
        };
        let layout = self.layout()?;
        let model = || Model::restore(backbone, embedding, layout, &self.tensors, device);
        caught("building the network", model).map_err(failed)
    }

    /// The shape of one input.
    pub fn layout(&self) -> Result<Layout> {
        let side = self.settings.images.size as i64;
        let inputs = |name: &str| {
            let tensor =
                self.tensors.get(name).ok_or_else(|| Error::format(&self.path, format!("has no tensor `{name}`")))?;
            Ok::<i64, Error>(tensor.size().get(1).copied().unwrap_or(0))
        };
        Ok(match &self.settings.backbone {
            BackboneRecipe::Conv4 { .. } => {
                let channels = inputs("backbone.block1.conv.weight")?;
                Layout::Images { channels, height: side, width: side }
            }
            BackboneRecipe::Mlp { hidden, .. } if !hidden.is_empty() => {
                Layout::Features { size: inputs("backbone.layer1.weight")? }
            }
            BackboneRecipe::Linear | BackboneRecipe::Mlp { .. } => {
                Layout::Features { size: inputs("embedding.weight")? }
            }
            _ => Layout::Images { channels: 3, height: side, width: side },
        })
    }

    /// Writes the model as TorchScript, see `Model::save_torchscript`.
    pub fn export_torchscript(&self, path: &Path) -> Result<()> {
        let shape = match self.layout()? {
            Layout::Images { channels, height, width } => vec![channels, height, width],
            Layout::Features { size } => vec![size],
        };
        self.build(Device::Cpu)?.save_torchscript(path, &shape)
    }

    /// Writes the tensors under the names of the original architecture, with the settings as metadata.
    pub fn export_safetensors(&self, path: &Path) -> Result<()> {
        let json = |value: serde_json::Result<String>| value.map_err(Error::encode("settings"));
        let ModelSettings { backbone, embedding, images } = &self.settings;
        let metadata = [
            ("format", FORMAT.to_string()),
            ("curricle", env!("CARGO_PKG_VERSION").to_string()),
            ("backbone", backbone.name().to_string()),
            ("embedding_size", embedding.size.to_string()),
            ("image_size", images.size.to_string()),
            ("normalise", json(serde_json::to_string(&normalisation(backbone).numbers()))?),
            ("settings", json(serde_json::to_string(&self.settings))?),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_string(), value)).into();
        Ok(files::write(path, &tensor_file::to_bytes(&self.build(Device::Cpu)?.original_tensors(), Some(metadata))?)?)
    }
}

/// Checks that the trained model of a finished run is the one that its result describes.
fn check_unchanged(folder: &RunFolder, model: &Path) -> Result<()> {
    let Some(result) = folder.read_result()?.filter(|result| !result.model_blake3.is_empty()) else { return Ok(()) };
    let bytes = std::fs::read(model).map_err(Error::file("read", model))?;
    if blake3::hash(&bytes).to_hex().as_str() != result.model_blake3 {
        let message = "is not the model that the run's `result.json` describes: it was changed after training; run \
                       the recipe again with `--force`";
        return Err(Error::format(model, message));
    }
    Ok(())
}

/// The backbone as it was built: its pretrained weights, which may no longer exist, decided about settings that
/// the recipe leaves open.
fn built(folder: &RunFolder, recipe: &Recipe) -> Result<BackboneRecipe> {
    let stored = folder.read_manifest()?.and_then(|manifest| manifest.backbone);
    let path = folder.manifest();
    let typed =
        |json| serde_json::from_value(json).map_err(|e| Error::format(path, format!("has no valid backbone: {e}")));
    let written = || recipe.backbone.without_weights(normalisation(&recipe.backbone));
    stored.map_or_else(|| Ok(written()), typed)
}
