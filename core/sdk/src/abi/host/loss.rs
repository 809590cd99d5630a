//! Losses of a library.

use super::call::{Collected, call, collect};
use super::lend::{LentTensors, Returned, lend_facts, lend_shape, lend_step, with_batch};
use super::tensors::{collect_advice, collect_specs, or_panic};
use super::{Instance, required};
use crate::abi::records::{Log, LossTable, Str};
use crate::{Advice, Batch, DataFacts, Loss, Result, Shape, StepInfo, TensorSpec, Tensors};
use std::ffi::c_void;
use tch::Tensor;
use torch_sys::C_tensor;

/// A loss in a library.
pub(super) struct LoadedLoss {
    instance: Instance<LossTable>,
    needs_ema: bool,
    gradient_is_exact: bool,
    takes_weights: bool,
    runs_on_host: bool,
}

impl LoadedLoss {
    pub(super) fn new(instance: Instance<LossTable>) -> Result<Self> {
        let table = instance.table;
        Ok(Self {
            needs_ema: instance.ask(table.needs_ema, false)?,
            gradient_is_exact: instance.ask(table.gradient_is_exact, true)?,
            takes_weights: instance.ask(table.takes_weights, true)?,
            runs_on_host: instance.ask(table.runs_on_host, false)?,
            instance,
        })
    }
}

/// What a call with a batch fills in.
pub(super) struct Filled<'a> {
    returned: Returned,
    log: &'a mut crate::Log,
}

impl Filled<'_> {
    /// Takes the result of the call.
    ///
    /// # Safety
    /// As for [`Returned::take`].
    pub(super) unsafe fn result(&mut self, tensor: *mut C_tensor, what: &str) -> Result<Tensor> {
        // SAFETY: the caller's obligation.
        unsafe { self.returned.take(tensor, what) }
    }
}

/// Lends a log to `work` and returns what it and the callbacks filled in.
pub(super) fn with_log<'a>(
    log: &'a mut crate::Log,
    returned: Returned,
    work: impl FnOnce(*const Log) -> Result<()>,
) -> Result<Filled<'a>> {
    extern "C" fn take_scalar(context: *mut c_void, name: Str, value: *mut C_tensor) {
        // SAFETY: `context` is what is filled in below; the library lends valid bytes and hands the tensor over.
        unsafe {
            collect(context, |filled: &mut Filled| {
                let name = name.read("the name of a logged scalar")?;
                let value = filled.returned.take(value, &format!("the logged scalar `{name}`"))?;
                filled.log.scalar(&name, || value);
                Ok(())
            });
        }
    }
    extern "C" fn take_per_sample(context: *mut c_void, name: Str, values: *mut C_tensor) {
        // SAFETY: as above.
        unsafe {
            collect(context, |filled: &mut Filled| {
                let name = name.read("the name of logged numbers")?;
                let values = filled.returned.take(values, &format!("the logged numbers `{name}`"))?;
                filled.log.per_sample(&name, &values);
                Ok(())
            });
        }
    }
    let enabled = u64::from(log.is_enabled());
    let mut filled = Collected::new(Filled { returned, log });
    let sink = Log {
        size: size_of::<Log>(),
        context: filled.context(),
        enabled,
        scalar: Some(take_scalar),
        per_sample: Some(take_per_sample),
    };
    let called = work(&raw const sink);
    filled.finish(called)
}

impl Loss for LoadedLoss {
    fn forward(&self, batch: &Batch, log: &mut crate::Log) -> Result<Tensor> {
        let (forward, this) = (required(self.instance.table.forward, "forward")?, self.instance.pointer);
        let mut loss: *mut C_tensor = std::ptr::null_mut();
        let out = &raw mut loss;
        with_batch(batch, |batch, returned| {
            let mut filled = with_log(log, returned, |log| call(move |error| forward(this, batch, log, out, error)))?;
            // SAFETY: the library hands the loss over.
            unsafe { filled.result(loss, "the loss") }
        })
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let Some(tensors) = self.instance.table.tensors else { return Vec::new() };
        let (this, shape) = (self.instance.pointer, lend_shape(shape));
        let shape = &raw const shape;
        or_panic(collect_specs(move |sink, error| tensors(this, shape, sink, error)))
    }

    fn initialise(&self, tensors: &Tensors, shape: &Shape, seed: u64) -> Result<()> {
        let Some(initialise) = self.instance.table.initialise else { return Ok(()) };
        let (this, tensors, shape) = (self.instance.pointer, LentTensors::new(tensors), lend_shape(shape));
        let list = tensors.list();
        let (list, shape) = (&raw const list, &raw const shape);
        call(move |error| initialise(this, list, shape, seed, error))
    }

    fn after_step(&self, tensors: &Tensors, info: &StepInfo) -> Result<()> {
        let Some(after_step) = self.instance.table.after_step else { return Ok(()) };
        let (this, tensors, step) = (self.instance.pointer, LentTensors::new(tensors), lend_step(info));
        let list = tensors.list();
        let (list, step) = (&raw const list, &raw const step);
        call(move |error| after_step(this, list, step, error))
    }

    fn gradient_is_exact(&self) -> bool {
        self.gradient_is_exact
    }

    fn needs_ema(&self) -> bool {
        self.needs_ema
    }

    fn takes_weights(&self) -> bool {
        self.takes_weights
    }

    fn runs_on_host(&self) -> bool {
        self.runs_on_host
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        let Some(advice) = self.instance.table.advice else { return Vec::new() };
        let (this, facts) = (self.instance.pointer, lend_facts(data));
        let facts = &raw const facts;
        collect_advice(move |sink, error| advice(this, facts, sink, error))
    }
}
