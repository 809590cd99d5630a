//! Networks from outside: TorchScript modules that map images to features.

use super::network::Network;
use super::weights::is_state_dict;
use crate::{Error, Result};
use curricle_recipe::TorchscriptRecipe;
use curricle_torch::{Script, ScriptTensor};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tch::nn::{self, ModuleT};
use tch::{Device, Kind, Tensor};

/// SHA-256 of a file. A sweep asks for the same file once for each recipe.
pub(crate) fn script_hash(path: &Path) -> Result<String> {
    static KNOWN: Mutex<BTreeMap<(PathBuf, u64, SystemTime), String>> = Mutex::new(BTreeMap::new());
    let metadata = std::fs::metadata(path).map_err(Error::file("read", path))?;
    let key = metadata.modified().ok().map(|modified| (path.to_path_buf(), metadata.len(), modified));
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = key.as_ref().and_then(|key| known.get(key)) {
        return Ok(hash.clone());
    }
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    known.extend(key.map(|key| (key, hash.clone())));
    Ok(hash)
}

/// Checks that the file is the one that the recipe means, or records its hash.
pub(super) fn check_hash(recipe: &mut TorchscriptRecipe) -> Result<()> {
    if recipe.sha256.is_some() && !recipe.path.exists() {
        let message = "does not exist, but has the code of this run's network; restore the file";
        return Err(Error::format(&recipe.path, message));
    }
    let found = script_hash(&recipe.path)?;
    match &recipe.sha256 {
        Some(wanted) if !wanted.eq_ignore_ascii_case(&found) => Err(Error::format(
            &recipe.path,
            format!("is not the network of this run: its SHA-256 is {found}, not {wanted}; restore the file"),
        )),
        _ => {
            recipe.sha256 = Some(found);
            Ok(())
        }
    }
}

/// A module that is part of a model.
#[derive(Debug, Clone)]
pub(super) struct ScriptModule {
    script: Arc<Mutex<Script>>,
    frozen_norm: bool,
}

impl ScriptModule {
    /// Calls a function with the module.
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&Script) -> T) -> T {
        use_it(&self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ModuleT for ScriptModule {
    fn forward_t(&self, images: &Tensor, train: bool) -> Tensor {
        let output = self.with(|script| {
            script.train(train, self.frozen_norm)?;
            script.forward(images)
        });
        // As tch's own methods do; callers turn it into an error.
        output.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Loads a module onto a device and adds its tensors to the store. A trial image of this size finds the number of
/// features.
pub(super) fn build(
    recipe: &TorchscriptRecipe,
    (height, width): (i64, i64),
    path: &nn::Path,
    device: Device,
) -> Result<(Network, ScriptModule)> {
    check_hash(&mut recipe.clone())?;
    let script = load(&recipe.path, device)?;
    let wrong = |message: String| Error::format(&recipe.path, message);
    let tensors = distinct(script.tensors().map_err(|error| wrong(error.to_string()))?).map_err(wrong)?;
    let is_norm = |name: &str| {
        let layer = name.rsplit_once('.').map_or("", |(layer, _)| layer);
        tensors.iter().any(|named| named.buffer && named.name == format!("{layer}.running_mean"))
    };
    for named in &tensors {
        let frozen = recipe.frozen_norm && is_norm(&named.name);
        let trained = !named.buffer && named.tensor.requires_grad() && !frozen;
        let tensor = if frozen { named.tensor.set_requires_grad(false) } else { named.tensor.shallow_clone() };
        let mut parts: Vec<&str> = named.name.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let _ = parts.into_iter().fold(path.clone(), |path, part| path / part).add(last, tensor, trained);
    }
    let module = ScriptModule { script: Arc::new(Mutex::new(script)), frozen_norm: recipe.frozen_norm };
    let output = trial(&module, (height, width), device).map_err(wrong)?;
    let features = features(&output).map_err(wrong)?;
    if !recipe.frozen {
        trainable(&tensors, &output).map_err(wrong)?;
    }
    Ok((Network { module: Box::new(module.clone()), features }, module))
}

/// Checks before training that the file is the one that the recipe means, and a module. The trial is left to
/// [`build`], which knows the device.
pub(crate) fn check_script(recipe: &TorchscriptRecipe) -> Result<()> {
    check_hash(&mut recipe.clone())?;
    names(&recipe.path).map(drop)
}

/// The names of a module's tensors. A sweep asks for the same file once for each recipe.
pub(super) fn names(path: &Path) -> Result<Vec<String>> {
    static KNOWN: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());
    let hash = script_hash(path)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(names) = known.get(&hash) {
        return Ok(names.clone());
    }
    let wrong = |message| Error::format(path, message);
    let tensors = load(path, Device::Cpu)?.tensors().map_err(|error| wrong(error.to_string()))?;
    let names: Vec<_> = distinct(tensors).map_err(wrong)?.into_iter().map(|named| named.name).collect();
    known.insert(hash, names.clone());
    Ok(names)
}

fn load(path: &Path, device: Device) -> Result<Script> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    if is_state_dict(&bytes) {
        let message = "holds tensors or a pickled model (`torch.save`), not TorchScript; write the network with its code: \
                       `torch.jit.script(model).save(path)`, or `torch.jit.trace(model, example).save(path)`";
        return Err(Error::format(path, message));
    }
    if !bytes.starts_with(b"PK") {
        return Err(Error::format(
            path,
            "is not a TorchScript file; write one with `torch.jit.script(model).save(path)`",
        ));
    }
    Script::load(path, device).map_err(|error| Error::format(path, not_loaded(&error.to_string())))
}

/// Libtorch's messages about archives speak of its own reader and of damaged checkpoints.
fn not_loaded(text: &str) -> String {
    if text.contains("failed finding central directory") {
        return "is incomplete; copy it again, or write it again from Python".into();
    }
    if text.contains("constants.pkl: file not found") {
        return "is an archive without TorchScript, such as `torch.export.save` writes; save the network with \
                `torch.jit.script(model).save(path)`"
            .into();
    }
    format!("cannot be loaded as TorchScript: {}", first_line(text).trim_start_matches("Internal torch error: "))
}

/// The tensors of a module without the further names of tied parameters, as in Python's `named_parameters`.
fn distinct(tensors: Vec<ScriptTensor>) -> Result<Vec<ScriptTensor>, String> {
    let mut found: Vec<ScriptTensor> = Vec::new();
    for named in tensors {
        let (name, kind) = (&named.name, named.tensor.kind());
        if !named.buffer && kind != Kind::Float {
            return Err(format!("has a parameter `{name}` of type {kind:?}; save the network with `model.float()`"));
        }
        let shared = |other: &&ScriptTensor| other.tensor.data_ptr() == named.tensor.data_ptr();
        match found.iter().filter(|_| named.tensor.numel() > 0).find(shared) {
            None => found.push(named),
            // `Script` made it one tensor with the first.
            Some(other) if !named.buffer && other.tensor.size() == named.tensor.size() => {}
            Some(other) => {
                let other = &other.name;
                return Err(format!("has `{other}` and `{name}` in the same memory; give each its own tensor"));
            }
        }
    }
    Ok(found)
}

/// What the module returns for two images.
fn trial(module: &ScriptModule, (height, width): (i64, i64), device: Device) -> Result<Tensor, String> {
    let images = Tensor::zeros([2, 3, height, width], (Kind::Float, device));
    let output = module.with(|script| {
        script.train(false, false)?;
        tch::with_grad(|| script.forward(&images))
    });
    output.map_err(|error| {
        let cause = last_line(&error.to_string()).trim_start_matches("Internal torch error: ").to_string();
        let fix = match cause.contains("instead of one tensor") {
            true => "wrap it in a module that returns the features alone",
            false => "if it was made for another size, set `images.size`",
        };
        format!("fails on two images of {height} × {width} pixels: {cause}; {fix}")
    })
}

/// The number of features.
fn features(output: &Tensor) -> Result<i64, String> {
    match output.size().as_slice() {
        &[2, features] if features > 0 => Ok(features),
        size @ [2, _, _, _] => Err(format!(
            "returns feature maps {size:?} instead of features [B, F]; pool them, e.g. with \
             `torch.nn.Sequential(model, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())`"
        )),
        size @ [2, ..] => Err(format!("returns a tensor of shape {size:?} instead of features [B, F]")),
        size => Err(format!(
            "returns shape {size:?} for 2 images instead of [2, F]; was the size of the batch fixed while tracing?"
        )),
    }
}

/// Checks that training can change what the module returns. Parameters that Python has frozen stay so.
fn trainable(tensors: &[ScriptTensor], output: &Tensor) -> Result<(), String> {
    let mut parameters = tensors.iter().filter(|named| !named.buffer).peekable();
    let (what, cause) = match parameters.peek().is_some() {
        false => ("has no parameters", "`torch.jit.freeze` makes them constants"),
        true if !output.requires_grad() && parameters.any(|named| named.tensor.requires_grad()) => {
            ("returns features that are detached from its parameters", "`no_grad` or `detach` in its `forward`")
        }
        true => return Ok(()),
    };
    Err(format!(
        "{what} ({cause}?), so it cannot be trained; `backbone.frozen = true` trains the embedding layer alone"
    ))
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

/// The interpreter's messages begin with the module's code and end with the cause.
fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests;
