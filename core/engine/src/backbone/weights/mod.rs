//! Loads pretrained weights from PyTorch, tch and safetensors files.

mod names;
mod pickle;
mod pth;
#[cfg(test)]
mod tests;

use crate::{Error, Result};
use curricle_record::WeightsReport;
use names::Mapping;
use pth::FileContents;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use tch::{Device, Tensor};

/// Number of names shown of a longer list.
const SHOWN: usize = 5;

/// Loads a network's tensors, given by their names in files, from a file.
pub(super) fn load(file: &WeightsFile, network: &str, wanted: &HashMap<String, Tensor>) -> Result<WeightsReport> {
    let found = &file.contents.tensors;
    let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let mapping = Mapping::best(&names, &found.keys().map(String::as_str).collect::<Vec<_>>());
    if mapping.matched == 0 {
        let what = format!("the {} tensors of `{network}`", wanted.len());
        return Err(file.wrong(file.nothing_matched(&what)));
    }
    let source = |name: &str| {
        let in_file = mapping.in_file(name)?;
        found.get(&in_file).map(|tensor| (in_file, tensor.shallow_clone()))
    };
    let report = file.copy(network, wanted, source)?;
    let module = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let modules: HashSet<_> = wanted.keys().map(|name| module(name)).collect();
    let inside =
        |name: &&String| name.strip_prefix(&mapping.prefix).is_some_and(|name| modules.contains(&module(name)));
    let left_over_inside = report.left_over.iter().filter(inside).count();
    Ok(WeightsReport { left_over_inside, prefix: mapping.prefix, ..report })
}

/// How many of a network's tensors a file has, by name and size.
pub(super) fn matching(file: &WeightsFile, wanted: &HashMap<String, Tensor>) -> usize {
    let found = &file.contents.tensors;
    let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let mapping = Mapping::best(&names, &found.keys().map(String::as_str).collect::<Vec<_>>());
    let same = |(name, tensor): &(&String, &Tensor)| {
        mapping.in_file(name).and_then(|name| found.get(&name)).is_some_and(|found| found.size() == tensor.size())
    };
    wanted.iter().filter(same).count()
}

/// A file of weights in memory.
#[derive(Debug)]
pub(super) struct WeightsFile {
    path: PathBuf,
    sha256: String,
    pub contents: FileContents,
}

impl WeightsFile {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        let contents = read(path, &bytes).map_err(|message| Error::format(path, message))?;
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path: path.to_path_buf(), sha256, contents })
    }

    /// An error about this file.
    pub(super) fn wrong(&self, message: String) -> Error {
        Error::format(&self.path, message)
    }

    /// Copies tensors into those of a network. `source` finds a network's tensor and its name in the file.
    pub(super) fn copy(
        &self,
        network: &str,
        wanted: &HashMap<String, Tensor>,
        source: impl Fn(&str) -> Option<(String, Tensor)>,
    ) -> Result<WeightsReport> {
        let mut missing: Vec<&str> = wanted.keys().filter(|name| source(name).is_none()).map(String::as_str).collect();
        if !missing.is_empty() {
            missing.sort_unstable();
            return Err(self.wrong(format!(
                "lacks {} of the {} tensors of `{network}`: {}. Is the file from another network, or incomplete?",
                missing.len(),
                wanted.len(),
                some(&missing)
            )));
        }
        let _no_grad = tch::no_grad_guard();
        let mut used = HashSet::new();
        for (name, tensor) in wanted {
            let Some((in_file, from)) = source(name) else { continue };
            if from.size() != tensor.size() {
                let (has, needs) = (from.size(), tensor.size());
                return Err(self.wrong(format!("`{in_file}` has shape {has:?}, but `{network}` needs {needs:?}")));
            }
            tensor.shallow_clone().f_copy_(&from).map_err(|e| self.wrong(format!("`{in_file}`: {e}")))?;
            used.insert(in_file);
        }
        let counts = |name: &&String| !used.contains(*name) && !name.ends_with("num_batches_tracked");
        Ok(WeightsReport {
            left_over: self.contents.tensors.keys().filter(counts).cloned().collect(),
            left_over_inside: 0,
            path: self.path.clone(),
            sha256: self.sha256.clone(),
            matched: wanted.len(),
            prefix: String::new(),
            publisher: None,
        })
    }

    /// The message that the file has none of the tensors of a network.
    pub(super) fn nothing_matched(&self, what: &str) -> String {
        let mut message = format!("has none of {what}");
        let names: Vec<&str> = self.contents.tensors.keys().map(String::as_str).collect();
        if !names.is_empty() {
            message += &format!("; tensors found: {}", some(&names));
        }
        if !self.contents.objects.is_empty() {
            let objects: Vec<_> = self.contents.objects.iter().map(String::as_str).collect();
            message += &format!(
                ". It contains Python objects ({}), which only Python can load; save only the parameters, with \
                 `torch.save(model.state_dict(), path)`",
                some(&objects)
            );
        }
        message
    }
}

fn some(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Detects the format from the contents, because file names are unreliable.
fn read(path: &Path, bytes: &[u8]) -> Result<FileContents, String> {
    if pth::is_zip(bytes) {
        pth::read_zip(bytes)
    } else if pth::is_legacy(bytes) {
        pth::read_legacy(bytes)
    } else if bytes.starts_with(b"PK") {
        tracing::warn!(
            "`{}` is a TorchScript archive (such as tch's `.ot`), a format without checksums: damage to it is not \
             noticed. Prefer a `.pth` file, as PyTorch has written it since 1.6",
            path.display()
        );
        let tensors = torchscript(path).map_err(|e| {
            let reason = first_line(&e.to_string()).to_string();
            format!("is incomplete, or an archive without tensors; download or save it again: {reason}")
        })?;
        Ok(FileContents { tensors, objects: Vec::new() })
    } else if is_safetensors(bytes) {
        let tensors = Tensor::read_safetensors(path).map_err(|e| format!("is a damaged safetensors file: {e}"))?;
        Ok(FileContents { tensors: tensors.into_iter().collect(), objects: Vec::new() })
    } else {
        Err("is neither a PyTorch file (`.pth`), a safetensors file nor a tch file (`.ot`)".into())
    }
}

/// The tensors of a TorchScript archive, which tch's `.ot` files and OpenAI's CLIP are.
fn torchscript(path: &Path) -> Result<BTreeMap<String, Tensor>, tch::TchError> {
    let tensors = curricle_torch::Script::load(path, Device::Cpu)?.tensors()?;
    // Names of attributes have no dots, so tch writes bars.
    Ok(tensors.into_iter().map(|named| (named.name.replace('|', "."), named.tensor.detach())).collect())
}

/// Whether a file holds pickled tensors or objects, as `torch.save` writes them.
pub(super) fn is_state_dict(bytes: &[u8]) -> bool {
    pth::is_zip(bytes) || pth::is_legacy(bytes)
}

/// The tensors of a dictionary that was saved with `torch.save`, by name; `None` for other files.
pub(crate) fn pytorch_tensors(bytes: &[u8]) -> Option<Result<Vec<(String, Tensor)>, String>> {
    let contents = if pth::is_zip(bytes) {
        pth::read_zip(bytes)
    } else if pth::is_legacy(bytes) {
        pth::read_legacy(bytes)
    } else {
        return None;
    };
    Some(contents.map(|contents| contents.tensors.into_iter().collect()))
}

fn is_safetensors(bytes: &[u8]) -> bool {
    bytes.len() > 9 && bytes[8] == b'{'
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
