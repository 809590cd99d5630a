//! Copies saved tensors into those of a new process.

use crate::{Error, Result};
use tch::Tensor;

/// Copies a saved tensor; the error names it if it does not fit.
pub(super) fn copy(to: &Tensor, from: &Tensor, name: &str) -> Result<()> {
    if to.size() != from.size() {
        let (found, wanted) = (from.size(), to.size());
        return Err(Error::TensorShape { name: name.to_string(), found, wanted });
    }
    if to.kind() != from.kind() {
        return Err(Error::CheckpointMismatch);
    }
    to.shallow_clone().copy_(from);
    Ok(())
}
