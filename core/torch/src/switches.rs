//! Switches of libtorch's CUDA half, for the whole process.

use crate::Result;
use crate::ffi::{check, curricle_set_deterministic, curricle_set_tf32};

/// Whether convolutions of f32 may be computed in TF32, with 10 instead of 23 bits of mantissa.
/// Matrix products, which losses and evaluation are made of, may not.
pub fn set_tf32(allowed: bool) -> Result<()> {
    // SAFETY: the call takes a plain value.
    check(unsafe { curricle_set_tf32(allowed) })
}

/// Whether the same inputs must give the same bits. Operators that cannot then fail.
pub fn set_deterministic(wanted: bool) -> Result<()> {
    // SAFETY: the call takes a plain value.
    check(unsafe { curricle_set_deterministic(wanted) })
}
