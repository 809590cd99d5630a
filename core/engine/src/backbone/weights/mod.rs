//! Loads pretrained weights from PyTorch, tch and safetensors files.

mod names;
mod pickle;
mod pth;
#[cfg(test)]
mod tests;

use crate::{Error, Result};
use curricle_record::WeightsReport;
use names::Mapping;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;
use tch::Tensor;

/// Number of names shown of a longer list.
const SHOWN: usize = 5;

/// Loads a network's tensors, given by their names in files, from a file.
pub(super) fn load(path: &Path, network: &str, wanted: &HashMap<String, Tensor>) -> Result<WeightsReport> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let wrong = |message: String| Error::format(path, message);
    let contents = read(path, &bytes).map_err(wrong)?;
    let found = &contents.tensors;
    let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let mapping = Mapping::best(&names, &found.keys().map(String::as_str).collect::<Vec<_>>());
    if mapping.matched == 0 {
        return Err(wrong(nothing_matched(network, wanted.len(), &contents)));
    }
    let mut missing: Vec<&str> = names.into_iter().filter(|name| !mapping.finds(name, found)).collect();
    if !missing.is_empty() {
        missing.sort_unstable();
        return Err(wrong(format!(
            "lacks {} of the {} tensors of `{network}`: {}. Is the file from another network, or incomplete?",
            missing.len(),
            wanted.len(),
            some(&missing)
        )));
    }
    let _no_grad = tch::no_grad_guard();
    for (name, tensor) in wanted {
        let Some(from) = mapping.in_file(name).and_then(|name| found.get(&name)) else { continue };
        if from.size() != tensor.size() {
            let (has, needs) = (from.size(), tensor.size());
            return Err(wrong(format!("`{name}` has shape {has:?}, but `{network}` needs {needs:?}")));
        }
        tensor.shallow_clone().f_copy_(from).map_err(|e| wrong(format!("`{name}`: {e}")))?;
    }
    let used: std::collections::HashSet<_> = wanted.keys().filter_map(|name| mapping.in_file(name)).collect();
    let counts = |name: &&String| !used.contains(*name) && !name.ends_with("num_batches_tracked");
    let left_over: Vec<String> = found.keys().filter(counts).cloned().collect();
    let module = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let modules: std::collections::HashSet<_> = wanted.keys().map(|name| module(name)).collect();
    let inside =
        |name: &&String| name.strip_prefix(&mapping.prefix).is_some_and(|name| modules.contains(&module(name)));
    Ok(WeightsReport {
        left_over_inside: left_over.iter().filter(inside).count(),
        path: path.to_path_buf(),
        sha256: Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
        matched: wanted.len(),
        left_over,
        prefix: mapping.prefix,
    })
}

fn nothing_matched(network: &str, wanted: usize, contents: &pth::FileContents) -> String {
    let mut message = format!("has none of the {wanted} tensors of `{network}`");
    let names: Vec<&str> = contents.tensors.keys().map(String::as_str).collect();
    if !names.is_empty() {
        message += &format!("; tensors found: {}", some(&names));
    }
    if !contents.objects.is_empty() {
        let objects: Vec<_> = contents.objects.iter().map(String::as_str).collect();
        message += &format!(
            ". It contains Python objects ({}), which only Python can load; save only the parameters, with \
             `torch.save(model.state_dict(), path)`",
            some(&objects)
        );
    }
    message
}

fn some(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Detects the format from the contents, because file names are unreliable.
fn read(path: &Path, bytes: &[u8]) -> Result<pth::FileContents, String> {
    if pth::is_zip(bytes) {
        pth::read_zip(bytes)
    } else if pth::is_legacy(bytes) {
        pth::read_legacy(bytes)
    } else if bytes.starts_with(b"PK") {
        // tch saves `.ot` files as TorchScript archives.
        let tensors = Tensor::load_multi(path).map_err(|e| {
            format!("is an archive without tensors that libtorch can read: {}", first_line(&e.to_string()))
        })?;
        Ok(pth::FileContents { tensors: tensors.into_iter().collect(), objects: Vec::new() })
    } else if is_safetensors(bytes) {
        let tensors = Tensor::read_safetensors(path).map_err(|e| format!("is a damaged safetensors file: {e}"))?;
        Ok(pth::FileContents { tensors: tensors.into_iter().collect(), objects: Vec::new() })
    } else {
        Err("is neither a PyTorch file (`.pth`), a safetensors file nor a tch file (`.ot`)".into())
    }
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
