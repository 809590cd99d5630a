//! Losses: their functions, batches and logs.

use super::{AdviceSink, DataFacts, ErrorSink, Question, Record, Shape, Str, TensorList, TensorSink};
use crate::abi::Status;
use std::ffi::c_void;
use torch_sys::C_tensor;

/// The functions of a loss. Only `forward` is required.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LossTable {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Computes the loss of a batch; the host owns the result.
    pub forward: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            batch: *const Batch,
            log: *const Log,
            loss: *mut *mut C_tensor,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Declares the tensors the instance needs.
    pub tensors: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            shape: *const Shape,
            sink: *const TensorSink,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Reports warnings about settings that are valid but degenerate.
    pub advice: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            data: *const DataFacts,
            sink: *const AdviceSink,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Called after the optimiser's step; changes declared tensors in place.
    pub after_step: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            tensors: *const TensorList,
            step: *const StepRecord,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Not 0 if `forward` reads `ema_embeddings`. Called once.
    pub needs_ema: Question,
    /// Gives the declared tensors their initial values, in place. Since 2.1, as are the following.
    pub initialise: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            tensors: *const TensorList,
            shape: *const Shape,
            seed: u64,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Not 0 if the gradient is the derivative of the value. Called once; if null, it is.
    pub gradient_is_exact: Question,
    /// Not 0 if `forward` reads `weights`. Called once; if null, it does.
    pub takes_weights: Question,
    /// Not 0 if `forward` computes on the host. Called once; if null, it does not.
    pub runs_on_host: Question,
}

// SAFETY: `repr(C)`, starts with its size, and its functions are options.
unsafe impl Record for LossTable {
    const NAME: &'static str = "curricle_loss_table";
    const MINIMUM: usize = 16;
}

/// Where in training a batch is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StepRecord {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Epochs in the whole run.
    pub epochs: u64,
    /// The step within the epoch, from 0.
    pub step: u64,
    /// Steps in this epoch.
    pub steps: u64,
    /// Steps taken since the start of training.
    pub global_step: u64,
    /// Number of training classes.
    pub classes: i64,
    /// Number of training samples.
    pub samples: i64,
}

// SAFETY: as above.
unsafe impl Record for StepRecord {
    const NAME: &'static str = "curricle_step";
    const MINIMUM: usize = 64;
}

/// A batch; all tensors are borrowed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Batch {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// `[B, D]`, f32 or f64.
    pub embeddings: *mut C_tensor,
    /// `[B]`, i64.
    pub labels: *mut C_tensor,
    /// `[B]`, i64.
    pub ids: *mut C_tensor,
    /// `[B]`, or null if all are 1.
    pub weights: *mut C_tensor,
    /// `[B, D]`, or null unless the component needs them.
    pub ema_embeddings: *mut C_tensor,
    /// The declared tensors.
    pub tensors: *const TensorList,
    /// Where in training the batch is.
    pub step: *const StepRecord,
}

// SAFETY: as above.
unsafe impl Record for Batch {
    const NAME: &'static str = "curricle_batch";
    const MINIMUM: usize = 64;
}

/// Receives named numbers during one call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Log {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Opaque; passed to the callbacks.
    pub context: *mut c_void,
    /// Not 0 if scalars are kept during this call.
    pub enabled: u64,
    /// Takes ownership of a one-element tensor.
    pub scalar: Option<extern "C" fn(context: *mut c_void, name: Str, value: *mut C_tensor)>,
    /// Takes ownership of a tensor with one number per row of the batch.
    pub per_sample: Option<extern "C" fn(context: *mut c_void, name: Str, values: *mut C_tensor)>,
}

// SAFETY: as above.
unsafe impl Record for Log {
    const NAME: &'static str = "curricle_log";
    const MINIMUM: usize = 40;
}
