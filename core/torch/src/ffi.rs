//! The functions of `shim.cpp`.

use crate::Result;
use std::ffi::{CStr, c_char, c_int};
use tch::{TchError, Tensor};
use torch_sys::C_tensor;

pub(crate) type List = *const *const C_tensor;
/// Null, or a message that the caller frees.
pub(crate) type Failure = *mut c_char;

unsafe extern "C" {
    pub(crate) fn curricle_autocast_enter(
        cuda: c_int,
        kind: c_int,
        was_enabled: *mut bool,
        was_kind: *mut c_int,
    ) -> Failure;
    pub(crate) fn curricle_autocast_exit(cuda: c_int, was_enabled: bool, was_kind: c_int) -> Failure;
    pub(crate) fn curricle_set_tf32(allowed: bool) -> Failure;
    pub(crate) fn curricle_set_deterministic(wanted: bool) -> Failure;
    pub(crate) fn curricle_computes_bf16(index: c_int, answer: *mut bool) -> Failure;
    pub(crate) fn curricle_pinned(sizes: *const i64, dimensions: usize, pinned: *mut *mut C_tensor) -> Failure;
    pub(crate) fn curricle_gather(tensors: List, offsets: *const i64, count: usize, buffer: *const C_tensor)
    -> Failure;
    pub(crate) fn curricle_seed(seed: i64) -> Failure;
    pub(crate) fn curricle_take_grad(parameter: *const C_tensor, gradient: *mut *mut C_tensor) -> Failure;
    pub(crate) fn curricle_norm(tensors: List, count: usize, norm: *mut *mut C_tensor) -> Failure;
    pub(crate) fn curricle_scale(tensors: List, count: usize, factor: *const C_tensor) -> Failure;
    pub(crate) fn curricle_lerp(tensors: List, targets: List, count: usize, share: f64) -> Failure;
    pub(crate) fn curricle_copy(tensors: List, sources: List, count: usize) -> Failure;
    pub(crate) fn curricle_unscale(
        gradients: List,
        count: usize,
        found_inf: *const C_tensor,
        inverse: *const C_tensor,
    ) -> Failure;
    pub(crate) fn curricle_adam(
        parameters: List,
        gradients: List,
        means: List,
        squares: List,
        count: usize,
        step: *const C_tensor,
        lr: f64,
        beta1: f64,
        beta2: f64,
        weight_decay: f64,
        eps: f64,
        decoupled: bool,
        found_inf: *const C_tensor,
    ) -> Failure;
    pub(crate) fn curricle_sgd(
        parameters: List,
        gradients: List,
        momenta: List,
        count: usize,
        lr: f64,
        momentum: f64,
        weight_decay: f64,
        nesterov: bool,
        found_inf: *const C_tensor,
    ) -> Failure;
    pub(crate) fn curricle_rmsprop(
        parameters: List,
        gradients: List,
        squares: List,
        momenta: List,
        count: usize,
        lr: f64,
        alpha: f64,
        eps: f64,
        momentum: f64,
        weight_decay: f64,
        found_inf: *const C_tensor,
    ) -> Failure;
}

/// Turns a returned message into an error.
pub(crate) fn check(failure: Failure) -> Result<()> {
    if failure.is_null() {
        return Ok(());
    }
    // SAFETY: the shim's messages are C strings allocated with malloc, owned by the caller.
    let message = unsafe {
        let message = CStr::from_ptr(failure).to_string_lossy().into_owned();
        libc::free(failure.cast());
        message
    };
    Err(TchError::Torch(message))
}

pub(crate) fn pointers(tensors: &[&Tensor]) -> Vec<*const C_tensor> {
    tensors.iter().map(|tensor| tensor.as_ptr()).collect()
}

pub(crate) fn optional(tensor: Option<&Tensor>) -> *const C_tensor {
    tensor.map_or(std::ptr::null(), Tensor::as_ptr)
}
