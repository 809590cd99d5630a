//! CUDA flags of libtorch, global to the process, and what a device can do.

use crate::Result;
use crate::ffi::{check, curricle_computes_bf16, curricle_set_deterministic, curricle_set_tf32};
use tch::Device;

/// Whether convolutions of f32 may use TF32, with 10 instead of 23 mantissa bits. Matrix products never
/// do, for the sake of losses and evaluation.
pub fn set_tf32(allowed: bool) -> Result<()> {
    // SAFETY: the call takes a plain value.
    check(unsafe { curricle_set_tf32(allowed) })
}

/// Whether the same inputs must give the same bits. If so, operators without a deterministic implementation fail.
pub fn set_deterministic(wanted: bool) -> Result<()> {
    // SAFETY: the call takes a plain value.
    check(unsafe { curricle_set_deterministic(wanted) })
}

/// Whether a device is a GPU of compute capability 8.0 (Ampere) or later, which convolves in bf16 and TF32 at full speed.
pub fn computes_bf16(device: Device) -> Result<bool> {
    let Device::Cuda(index) = device else { return Ok(false) };
    let mut answer = false;
    let index = i32::try_from(index).map_err(|_| tch::TchError::Torch(format!("there is no CUDA device {index}")))?;
    // SAFETY: the result is a variable of this function.
    check(unsafe { curricle_computes_bf16(index, &raw mut answer) })?;
    Ok(answer)
}
