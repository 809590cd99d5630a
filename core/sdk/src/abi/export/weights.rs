//! Weight schemes as C tables.

use super::borrow::{advise, borrow_some, declare, hand_over, tensors, with_batch};
use super::shield::shield;
use super::{instance, questions};
use crate::abi::Status;
use crate::abi::records::{
    AdviceSink, Batch, DataFacts, ErrorSink, Log, LossInfo, Round, Shape, Str, TensorSink, WeightSink, WeightsTable,
    read, slice,
};
use crate::{Error, Result, WeightScheme, WeightUpdate};
use serde_json::Value;
use std::ffi::c_void;
use torch_sys::C_tensor;

/// The functions of every weight scheme in Rust.
pub(super) static TABLE: WeightsTable = WeightsTable {
    size: size_of::<WeightsTable>(),
    update: Some(update),
    weigh_batch: Some(weigh_batch),
    tensors: Some(declare_tensors),
    advice: Some(advice),
    needs_embeddings: Some(needs_embeddings),
    is_uniform: Some(is_uniform),
    before_training: Some(before_training),
    needs_ema: Some(needs_ema),
};

/// The name and the settings of the recipe's loss.
///
/// # Safety
/// `loss` must be a valid record.
unsafe fn loss_info(loss: *const LossInfo) -> Result<(String, Value)> {
    // SAFETY: the caller's obligation.
    unsafe {
        let loss = read(loss)?;
        let text = loss.settings.read_up_to(usize::MAX, "the loss's settings")?;
        let settings = serde_json::from_str(&text).map_err(|e| Error::other(e.to_string()))?;
        Ok((loss.name.read("the loss's name")?, settings))
    }
}

fn pass_on(update: &WeightUpdate, sink: &WeightSink) {
    if let Some(write) = sink.weights {
        write(sink.context, update.weights.as_ptr(), update.weights.len());
    }
    if let Some(write) = sink.scalar {
        update.scalars.iter().for_each(|(name, value)| write(sink.context, Str::new(name), *value));
    }
    if let Some(write) = sink.column {
        for (name, values) in &update.columns {
            write(sink.context, Str::new(name), values.as_ptr(), values.len());
        }
    }
}

extern "C-unwind" fn update(
    this: *const c_void,
    round: *const Round,
    sink: *const WeightSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a weight scheme and records valid for this call: live tensors and arrays
    // of `samples` elements.
    shield(error, || unsafe {
        let (round, sink) = (read(round)?, read(sink)?);
        let (embeddings, ema_embeddings) = (borrow_some(round.embeddings), borrow_some(round.ema_embeddings));
        let labels = slice(round.labels, round.samples, usize::MAX, "labels")?;
        let weights = slice(round.weights, round.samples, usize::MAX, "weights")?;
        let (tensors, (name, settings)) = (tensors(round.tensors)?, loss_info(round.loss)?);
        let loss = crate::LossInfo { name: &name, settings: &settings };
        let update = instance::<dyn WeightScheme>(this).update(&crate::Round {
            round: round.round,
            rounds: round.rounds,
            seed: round.seed,
            embeddings: embeddings.as_ref(),
            ema_embeddings: ema_embeddings.as_ref(),
            age: Some(round.age).filter(|age| !age.is_nan()),
            ..crate::Round::new(labels, weights, &tensors, loss)
        })?;
        pass_on(&update, &sink);
        Ok(())
    })
}

extern "C-unwind" fn weigh_batch(
    this: *const c_void,
    batch: *const Batch,
    log: *const Log,
    out: *mut *mut C_tensor,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a weight scheme, records valid for this call and a valid output pointer.
    shield(error, || unsafe {
        let scheme = instance::<dyn WeightScheme>(this);
        let weights = with_batch(batch, log, |batch, log| scheme.weigh_batch(batch, log))?;
        *out = weights.map_or(std::ptr::null_mut(), hand_over);
        Ok(())
    })
}

extern "C-unwind" fn declare_tensors(
    this: *const c_void,
    shape: *const Shape,
    sink: *const TensorSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: the host passes an instance of a weight scheme and records valid for this call.
    shield(error, || unsafe { declare(shape, sink, |shape| instance::<dyn WeightScheme>(this).tensors(shape)) })
}

extern "C-unwind" fn advice(
    this: *const c_void,
    data: *const DataFacts,
    loss: *const LossInfo,
    sink: *const AdviceSink,
    error: *const ErrorSink,
) -> Status {
    // SAFETY: as above.
    shield(error, || unsafe {
        let (name, settings) = loss_info(loss)?;
        let loss = crate::LossInfo { name: &name, settings: &settings };
        advise(data, sink, |data| instance::<dyn WeightScheme>(this).advice(data, &loss))
    })
}

questions! { dyn WeightScheme: needs_embeddings is_uniform before_training needs_ema }
