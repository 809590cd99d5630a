//! Samplers as C tables.

use super::borrow::advise;
use super::instance;
use super::shield::shield;
use crate::Sampler;
use crate::abi::Status;
use crate::abi::records::{AdviceSink, BatchSink, DataFacts, Epoch, ErrorSink, SamplerTable, read, slice};
use std::ffi::c_void;

/// The functions of every sampler in Rust.
pub(super) static TABLE: SamplerTable = SamplerTable {
    size: size_of::<SamplerTable>(),
    batches: Some(batches),
    batch_size: Some(batch_size),
    advice: Some(advice),
};

extern "C-unwind" fn batches(
    this: *const c_void,
    epoch: *const Epoch,
    sink: *const BatchSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a sampler and records valid for this call, with a label per sample.
    shield(error, || unsafe {
        let (epoch, sink) = (read(epoch)?, read(sink)?);
        let labels = slice(epoch.labels, epoch.samples, usize::MAX, "labels")?;
        let epoch = crate::Epoch { labels, seed: epoch.seed, epoch: epoch.epoch };
        let batches = instance::<dyn Sampler>(this).batches(&epoch)?;
        if let Some(write) = sink.batch {
            batches.iter().for_each(|batch| write(sink.context, batch.as_ptr(), batch.len()));
        }
        Ok(())
    })
}

extern "C-unwind" fn batch_size(this: *const c_void, size: *mut usize, error: *const ErrorSink) -> Status {
    // SAFETY: the host passes an instance of a sampler and a valid output pointer.
    shield(error, || unsafe {
        *size = instance::<dyn Sampler>(this).batch_size();
        Ok(())
    })
}

extern "C-unwind" fn advice(
    this: *const c_void,
    data: *const DataFacts,
    sink: *const AdviceSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a sampler and records valid for this call.
    shield(error, || unsafe { advise(data, sink, |data| instance::<dyn Sampler>(this).advice(data)) })
}
