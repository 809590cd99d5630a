//! Losses as C tables.

use super::borrow::{advise, declare, hand_over, sizes, step, tensors, with_batch};
use super::shield::shield;
use super::{instance, questions};
use crate::Loss;
use crate::abi::Status;
use crate::abi::records::{
    AdviceSink, Batch, DataFacts, ErrorSink, Log, LossTable, Shape, StepRecord, TensorList, TensorSink,
};
use std::ffi::c_void;
use torch_sys::C_tensor;

/// The functions of every loss in Rust.
pub(super) static TABLE: LossTable = LossTable {
    size: size_of::<LossTable>(),
    forward: Some(forward),
    tensors: Some(declare_tensors),
    advice: Some(advice),
    after_step: Some(after_step),
    needs_ema: Some(needs_ema),
    initialise: Some(initialise),
    gradient_is_exact: Some(gradient_is_exact),
    takes_weights: Some(takes_weights),
    runs_on_host: Some(runs_on_host),
};

extern "C-unwind" fn forward(
    this: *const c_void,
    batch: *const Batch,
    log: *const Log,
    out: *mut *mut C_tensor,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a loss, records valid for this call and a valid output pointer.
    shield(error, || unsafe {
        let loss = instance::<dyn Loss>(this);
        *out = hand_over(with_batch(batch, log, |batch, log| loss.forward(batch, log))?);
        Ok(())
    })
}

extern "C-unwind" fn declare_tensors(
    this: *const c_void,
    shape: *const Shape,
    sink: *const TensorSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a loss and records valid for this call.
    shield(error, || unsafe { declare(shape, sink, |shape| instance::<dyn Loss>(this).tensors(shape)) })
}

extern "C-unwind" fn advice(
    this: *const c_void,
    data: *const DataFacts,
    sink: *const AdviceSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: as above.
    shield(error, || unsafe { advise(data, sink, |data| instance::<dyn Loss>(this).advice(data)) })
}

extern "C-unwind" fn after_step(
    this: *const c_void,
    list: *const TensorList,
    info: *const StepRecord,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: as above.
    shield(error, || unsafe { instance::<dyn Loss>(this).after_step(&tensors(list)?, &step(info)?) })
}

extern "C-unwind" fn initialise(
    this: *const c_void,
    list: *const TensorList,
    shape: *const Shape,
    seed: u64,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: as above.
    shield(error, || unsafe { instance::<dyn Loss>(this).initialise(&tensors(list)?, &sizes(shape)?, seed) })
}

questions! { dyn Loss: needs_ema gradient_is_exact takes_weights runs_on_host }
