//! Pinned memory.

use crate::Result;
use crate::ffi::{check, curricle_pin};
use tch::Tensor;

/// A copy in pinned memory, from which copies to a CUDA device are asynchronous.
pub fn pin(tensor: &Tensor) -> Result<Tensor> {
    let mut pinned = std::ptr::null_mut();
    // SAFETY: the tensor is borrowed for the call, and on success the call returns a new one.
    check(unsafe { curricle_pin(tensor.as_ptr(), &raw mut pinned) })?;
    // SAFETY: as above; it has no other owner.
    Ok(unsafe { Tensor::from_ptr(pinned) })
}
