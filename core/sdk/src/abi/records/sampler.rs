//! Samplers: their functions and epochs.

use super::library::sink;
use super::{AdviceSink, DataFacts, ErrorSink, Record};
use crate::abi::Status;
use std::ffi::c_void;

/// The functions of a sampler. `batches` and `batch_size` are required.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SamplerTable {
    /// Size of this struct in the library's version.
    pub size: usize,
    /// Returns the batches of an epoch.
    pub batches: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            epoch: *const Epoch,
            sink: *const BatchSink,
            error: *const ErrorSink,
        ) -> Status,
    >,
    /// Samples in a full batch. Called once.
    pub batch_size:
        Option<extern "C-unwind" fn(instance: *const c_void, size: *mut usize, error: *const ErrorSink) -> Status>,
    /// Reports warnings about settings that are valid but degenerate.
    pub advice: Option<
        extern "C-unwind" fn(
            instance: *const c_void,
            data: *const DataFacts,
            sink: *const AdviceSink,
            error: *const ErrorSink,
        ) -> Status,
    >,
}

// SAFETY: `repr(C)`, starts with its size, and its functions are options.
unsafe impl Record for SamplerTable {
    const NAME: &'static str = "curricle_sampler_table";
    const MINIMUM: usize = 24;
}

/// What a sampler knows about an epoch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Epoch {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// The label of every sample.
    pub labels: *const i64,
    /// Number of samples.
    pub samples: usize,
    /// The run's seed.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
}

// SAFETY: as above.
unsafe impl Record for Epoch {
    const NAME: &'static str = "curricle_epoch";
    const MINIMUM: usize = 40;
}

sink! {
    /// Receives batches.
    BatchSink, "curricle_batch_sink",
    /// Copies the indices of one batch.
    batch(ids: *const i64, count: usize)
}
