//! Page-locked memory.

use crate::Result;
use crate::ffi::{check, curricle_pin};
use tch::Tensor;

/// A copy in page-locked memory, from which a CUDA device fetches without anybody waiting.
pub fn pin(tensor: &Tensor) -> Result<Tensor> {
    let mut pinned = std::ptr::null_mut();
    // SAFETY: the tensor is borrowed for the call, and on success the call hands over a new one.
    check(unsafe { curricle_pin(tensor.as_ptr(), &raw mut pinned) })?;
    // SAFETY: as above; nobody else owns it.
    Ok(unsafe { Tensor::from_ptr(pinned) })
}
