//! Runs a single component on tensors from a file, to compare an implementation with a reference.

pub mod loss;
pub mod weights;

use crate::Result;
use crate::tensor_file;
use curricle_record::files;
use std::collections::BTreeMap;
use std::path::Path;
use tch::Tensor;

/// All tensors of a safetensors file.
fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    Ok(tensor_file::read(path)?.0.into_iter().collect())
}

/// Writes tensors atomically to a safetensors file.
fn write_tensors(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    Ok(files::write(path, &tensor_file::to_bytes(tensors, None)?)?)
}
