//! Single components on tensors from a file, for comparing an implementation with a reference.

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
        message: format!("is not a safetensors file that can be read: {e}"),
    })?;
    Ok(all.into_iter().collect())
}

/// Writes tensors to a safetensors file, whole or not at all.
fn write_tensors(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    files::write(path, &to_safetensors(tensors)?)
}
