//! Single components on tensors from a file, for comparing an implementation with a reference.

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

/// Writes tensors to a safetensors file, whole or not at all.
fn write_tensors(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    Ok(files::write(path, &tensor_file::to_bytes(tensors, None)?)?)
}
