//! CUDA flags of libtorch, global to the process.

use crate::Result;
use crate::ffi::{check, curricle_set_deterministic, curricle_set_tf32};

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
