//! Samplers of a library.

use super::call::{Collected, call, collect};
use super::lend::lend_facts;
use super::tensors::collect_advice;
use super::{Instance, required};
use crate::abi::records::{BatchSink, Epoch, SamplerTable, slice};
use crate::{Advice, DataFacts, Error, Result, Sampler};
use std::ffi::c_void;

/// Larger batches, and epochs with more than 64 of the largest, are taken for garbage.
const LARGEST_BATCH: usize = 1 << 22;

/// A sampler in a library.
pub(super) struct LoadedSampler {
    instance: Instance<SamplerTable>,
    batch_size: usize,
}

impl LoadedSampler {
    pub(super) fn new(instance: Instance<SamplerTable>) -> Result<Self> {
        let (ask, this, mut batch_size) = (required(instance.table.batch_size, "batch_size")?, instance.pointer, 0);
        let out = &raw mut batch_size;
        call(move |error| ask(this, out, error))?;
        if !(1..=LARGEST_BATCH).contains(&batch_size) {
            return Err(Error::other(format!("has a batch size of {batch_size}; it must be 1 to {LARGEST_BATCH}")));
        }
        Ok(Self { instance, batch_size })
    }
}

/// The batches of an epoch, and the number of samples in them.
#[derive(Default)]
struct Batches {
    all: Vec<Vec<i64>>,
    samples: usize,
}

impl Sampler for LoadedSampler {
    fn batches(&self, epoch: &crate::Epoch) -> Result<Vec<Vec<i64>>> {
        extern "C" fn take(context: *mut c_void, ids: *const i64, count: usize) {
            // SAFETY: `context` is that of the batches below; the library lends `count` indices.
            unsafe {
                collect(context, |batches: &mut Batches| {
                    let batch = slice(ids, count, LARGEST_BATCH, "a batch")?.to_vec();
                    // At least 1, so that empty batches without end are an error too.
                    batches.samples += count.max(1);
                    if batches.samples > 64 * LARGEST_BATCH {
                        return Err(Error::other(format!("returned an epoch of over {} samples", 64 * LARGEST_BATCH)));
                    }
                    batches.all.push(batch);
                    Ok(())
                });
            }
        }
        let (draw, this) = (required(self.instance.table.batches, "batches")?, self.instance.pointer);
        let lent = Epoch {
            size: size_of::<Epoch>(),
            labels: epoch.labels.as_ptr(),
            samples: epoch.labels.len(),
            seed: epoch.seed,
            epoch: epoch.epoch,
        };
        let mut batches = Collected::new(Batches::default());
        let sink = BatchSink { size: size_of::<BatchSink>(), context: batches.context(), batch: Some(take) };
        let (lent, sink) = (&raw const lent, &raw const sink);
        let called = call(move |error| draw(this, lent, sink, error));
        Ok(batches.finish(called)?.all)
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        let Some(advice) = self.instance.table.advice else { return Vec::new() };
        let (this, facts) = (self.instance.pointer, lend_facts(data));
        let facts = &raw const facts;
        collect_advice(move |sink, error| advice(this, facts, sink, error))
    }
}
