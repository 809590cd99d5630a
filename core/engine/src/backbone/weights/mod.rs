//! Pretrained weights from the files that others write.

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

/// Names shown of a longer list.
const SHOWN: usize = 5;

/// Fills a network's tensors, given by the names they have in files, with those of a file.
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
            "{} of the {} tensors of `{network}` are missing: {}. Is the file of another network, or of a part of it?",
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
            return Err(wrong(format!("`{name}` has the shape {has:?}, and `{network}` needs {needs:?}")));
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

fn nothing_matched(network: &str, wanted: usize, contents: &pth::Contents) -> String {
    let mut message = format!("none of the {wanted} tensors of `{network}` is in it");
    let names: Vec<&str> = contents.tensors.keys().map(String::as_str).collect();
    if !names.is_empty() {
        message += &format!("; it has: {}", some(&names));
    }
    if !contents.objects.is_empty() {
        let objects: Vec<_> = contents.objects.iter().map(String::as_str).collect();
        message += &format!(
            ". It holds Python objects ({}), which only Python can bring back to life; save the parameters alone, \
             with `torch.save(model.state_dict(), path)`",
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

/// The format is seen from the contents; names of files are not to be relied on.
fn read(path: &Path, bytes: &[u8]) -> Result<pth::Contents, String> {
    if pth::is_zip(bytes) {
        pth::read_zip(bytes)
    } else if pth::is_legacy(bytes) {
        pth::read_legacy(bytes)
    } else if bytes.starts_with(b"PK") {
        // What tch saves (`.ot`) is an archive of TorchScript.
        let tensors = Tensor::load_multi(path).map_err(|e| {
            format!("is an archive that libtorch cannot read tensors from: {}", first_line(&e.to_string()))
        })?;
        Ok(pth::Contents { tensors: tensors.into_iter().collect(), objects: Vec::new() })
    } else if is_safetensors(bytes) {
        let tensors = Tensor::read_safetensors(path).map_err(|e| format!("is a damaged safetensors file: {e}"))?;
        Ok(pth::Contents { tensors: tensors.into_iter().collect(), objects: Vec::new() })
    } else {
        Err("is neither a PyTorch file (`.pth`) nor a safetensors file nor one that tch wrote (`.ot`)".into())
    }
}

fn is_safetensors(bytes: &[u8]) -> bool {
    bytes.len() > 9 && bytes[8] == b'{'
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
