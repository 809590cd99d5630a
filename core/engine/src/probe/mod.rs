//! Runs a single component on tensors from a file, to compare an implementation with a reference.

pub mod loss;
pub mod weights;

use crate::run::checkpoint::to_safetensors;
use crate::{Error, Result, files};
use curricle_sdk::guard;
use std::collections::BTreeMap;
use std::path::Path;
use tch::Tensor;

/// All tensors of a safetensors file.
fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    if !path.is_file() {
        return Err(Error::file("read", path)(std::io::ErrorKind::NotFound.into()));
    }
    let all = guard(|| Ok(Tensor::read_safetensors(path)?)).map_err(|e| Error::Format {
        path: path.to_path_buf(),
        message: format!("is not a valid safetensors file: {e}"),
    })?;
    Ok(all.into_iter().collect())
}

/// Writes tensors atomically to a safetensors file.
fn write_tensors(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    files::write(path, &to_safetensors(tensors)?)
}
