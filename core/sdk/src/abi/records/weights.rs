//! Weight schemes: their functions, rounds and results.

use super::{AdviceSink, Batch, DataFacts, ErrorSink, Log, Question, Record, Shape, Str, TensorList, TensorSink};
use crate::abi::Status;
use std::ffi::c_void;
use torch_sys::C_tensor;

/// The functions of a weight scheme. `update` or `weigh_batch` is required.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WeightsTable {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Returns the weights of the next round. Without it they stay as they are.
    pub update: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            round: *const Round,
            sink: *const WeightSink,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Returns the weights of a batch, or null for those of the round; the host owns the result.
    pub weigh_batch: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            batch: *const Batch,
            log: *const Log,
            weights: *mut *mut C_tensor,
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
            loss: *const LossInfo,
            sink: *const AdviceSink,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Does `update` read the embeddings? Without it: yes if there is an `update`.
    pub needs_embeddings: Question,
    /// Are all weights always 1? Without it: no.
    pub is_uniform: Question,
    /// Is `update` also called before the first step, as round 0? Without it: no.
    pub before_training: Question,
    /// Are the embeddings of the network's moving average needed? Without it: no.
    pub needs_ema: Question,
}

// SAFETY: `repr(C)`, starts with its size, and its functions are options.
unsafe impl Record for WeightsTable {
    const NAME: &'static str = "curricle_weights_table";
    const MINIMUM: usize = 16;
}

/// The recipe's loss.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LossInfo {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Its name.
    pub name: Str,
    /// Its settings, a JSON object.
    pub settings: Str,
}

// SAFETY: as above.
unsafe impl Record for LossInfo {
    const NAME: &'static str = "curricle_loss_info";
    const MINIMUM: usize = 40;
}

/// What a weight scheme sees.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Round {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// The round, from 1; 0 is the one before training.
    pub round: u64,
    /// Rounds in the whole run.
    pub rounds: u64,
    /// The run's seed.
    pub seed: u64,
    /// `[N, D]`, or null if the scheme does not need them.
    pub embeddings: *mut C_tensor,
    /// `[N, D]` by the moving average of the network, or null unless the scheme needs them.
    pub ema_embeddings: *mut C_tensor,
    /// The label of every sample.
    pub labels: *const i64,
    /// The weight of every sample.
    pub weights: *const f64,
    /// Number of samples.
    pub samples: usize,
    /// The declared tensors.
    pub tensors: *const TensorList,
    /// The recipe's loss.
    pub loss: *const LossInfo,
    /// The age that overrides the one of the scheme's schedule, or NaN.
    pub age: f64,
}

// SAFETY: as above.
unsafe impl Record for Round {
    const NAME: &'static str = "curricle_round";
    const MINIMUM: usize = 96;
}

/// Receives the result of a weight scheme.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WeightSink {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Opaque; passed to the callbacks.
    pub context: *mut c_void,
    /// Copies the new weights.
    pub weights: Option<extern "C" fn(context: *mut c_void, values: *const f64, count: usize)>,
    /// Copies a named number.
    pub scalar: Option<extern "C" fn(context: *mut c_void, name: Str, value: f64)>,
    /// Copies a named column with one value per sample.
    pub column: Option<extern "C" fn(context: *mut c_void, name: Str, values: *const f64, count: usize)>,
}

// SAFETY: as above.
unsafe impl Record for WeightSink {
    const NAME: &'static str = "curricle_weight_sink";
    const MINIMUM: usize = 40;
}
