//! Weight schemes of a library.

use super::Instance;
use super::call::{Collected, call, collect, push};
use super::lend::{LentTensors, lend_facts, lend_loss_info, lend_shape, lend_some, with_batch};
use super::loss::with_log;
use super::tensors::{collect_advice, collect_specs, or_panic};
use crate::abi::records::{Round, Str, WeightSink, WeightsTable, slice};
use crate::{Advice, Batch, DataFacts, Error, Log, LossInfo, Result, Shape, TensorSpec, WeightScheme, WeightUpdate};
use std::ffi::c_void;
use tch::Tensor;
use torch_sys::C_tensor;

/// A weight scheme in a library.
pub(super) struct LoadedWeights {
    instance: Instance<WeightsTable>,
    needs_embeddings: bool,
    is_uniform: bool,
    before_training: bool,
    needs_ema: bool,
}

impl LoadedWeights {
    pub(super) fn new(instance: Instance<WeightsTable>) -> Result<Self> {
        let table = instance.table;
        Ok(Self {
            needs_embeddings: instance.ask(table.needs_embeddings, table.update.is_some())?,
            is_uniform: instance.ask(table.is_uniform, false)?,
            before_training: instance.ask(table.before_training, false)?,
            needs_ema: instance.ask(table.needs_ema, false)?,
            instance,
        })
    }
}

/// An update, and how many samples there are.
struct Weighted {
    samples: usize,
    update: WeightUpdate,
}

impl Weighted {
    /// One number per sample.
    ///
    /// # Safety
    /// `values` must point to `count` numbers.
    unsafe fn numbers(&self, values: *const f64, count: usize, what: &str) -> Result<Vec<f64>> {
        if count != self.samples {
            return Err(Error::other(format!("returned {what} of length {count} for {} samples", self.samples)));
        }
        // SAFETY: the caller's obligation.
        Ok(unsafe { slice(values, count, count, what) }?.to_vec())
    }
}

extern "C" fn take_weights(context: *mut c_void, values: *const f64, count: usize) {
    // SAFETY: `context` is that of an update; the library lends `count` numbers.
    unsafe {
        collect(context, |weighted: &mut Weighted| {
            weighted.update.weights = weighted.numbers(values, count, "weights")?;
            Ok(())
        });
    }
}

extern "C" fn take_scalar(context: *mut c_void, name: Str, value: f64) {
    // SAFETY: `context` is that of an update; the library lends valid bytes.
    unsafe {
        collect(context, |weighted: &mut Weighted| {
            push(&mut weighted.update.scalars, (name.read("the name of a scalar")?, value), "scalars")
        });
    }
}

extern "C" fn take_column(context: *mut c_void, name: Str, values: *const f64, count: usize) {
    // SAFETY: `context` is that of an update; the library lends valid bytes and numbers.
    unsafe {
        collect(context, |weighted: &mut Weighted| {
            let name = name.read("the name of a column")?;
            let values = weighted.numbers(values, count, &format!("column `{name}`"))?;
            push(&mut weighted.update.columns, (name, values), "columns")
        });
    }
}

impl WeightScheme for LoadedWeights {
    fn update(&self, round: &crate::Round) -> Result<WeightUpdate> {
        let Some(update) = self.instance.table.update else {
            return Ok(WeightUpdate { weights: round.weights.to_vec(), ..Default::default() });
        };
        let (this, tensors, settings) =
            (self.instance.pointer, LentTensors::new(round.tensors), round.loss.settings.to_string());
        let (list, loss) = (tensors.list(), lend_loss_info(round.loss.name, &settings));
        let lent = Round {
            size: size_of::<Round>(),
            round: round.round,
            rounds: round.rounds,
            seed: round.seed,
            embeddings: lend_some(round.embeddings),
            ema_embeddings: lend_some(round.ema_embeddings),
            labels: round.labels.as_ptr(),
            weights: round.weights.as_ptr(),
            samples: round.labels.len(),
            tensors: &raw const list,
            loss: &raw const loss,
            age: round.age.unwrap_or(f64::NAN),
        };
        let (samples, update_so_far) = (round.labels.len(), WeightUpdate::default());
        let mut weighted = Collected::new(Weighted { samples, update: update_so_far });
        let sink = WeightSink {
            size: size_of::<WeightSink>(),
            context: weighted.context(),
            weights: Some(take_weights),
            scalar: Some(take_scalar),
            column: Some(take_column),
        };
        let (lent, sink) = (&raw const lent, &raw const sink);
        let called = call(move |error| update(this, lent, sink, error));
        Ok(weighted.finish(called)?.update)
    }

    fn weigh_batch(&self, batch: &Batch, log: &mut Log) -> Result<Option<Tensor>> {
        let Some(weigh_batch) = self.instance.table.weigh_batch else { return Ok(None) };
        let (this, mut weights) = (self.instance.pointer, std::ptr::null_mut::<C_tensor>());
        let out = &raw mut weights;
        with_batch(batch, |batch, returned| {
            let mut filled =
                with_log(log, returned, |log| call(move |error| weigh_batch(this, batch, log, out, error)))?;
            if weights.is_null() {
                return Ok(None);
            }
            // SAFETY: the library hands the weights over.
            unsafe { filled.result(weights, "the weights of a batch") }.map(Some)
        })
    }

    fn before_training(&self) -> bool {
        self.before_training
    }

    fn needs_ema(&self) -> bool {
        self.needs_ema
    }

    fn needs_embeddings(&self) -> bool {
        self.needs_embeddings
    }

    fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let Some(tensors) = self.instance.table.tensors else { return Vec::new() };
        let (this, shape) = (self.instance.pointer, lend_shape(shape));
        let shape = &raw const shape;
        or_panic(collect_specs(move |sink, error| tensors(this, shape, sink, error)))
    }

    fn advice(&self, data: &DataFacts, loss: &LossInfo) -> Vec<Advice> {
        let Some(advice) = self.instance.table.advice else { return Vec::new() };
        let (this, facts, settings) = (self.instance.pointer, lend_facts(data), loss.settings.to_string());
        let loss = lend_loss_info(loss.name, &settings);
        let (facts, loss) = (&raw const facts, &raw const loss);
        collect_advice(move |sink, error| advice(this, facts, loss, sink, error))
    }
}
