//! What the host lends, as the types that components see, and what they return.

use crate::abi::records::{
    AdviceSink, Batch, DataFacts, INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM, Log, Shape, StepRecord, Str, TensorList,
    TensorSink, TensorSpec, kind_code, read, slice,
};
use crate::{Init, Result, StepInfo, Tensors};
use std::mem::ManuallyDrop;
use tch::Tensor;
use torch_sys::C_tensor;

/// A new handle to a borrowed tensor.
///
/// # Safety
/// `tensor` must be a live `at::Tensor*`.
pub(super) unsafe fn borrow(tensor: *mut C_tensor) -> Tensor {
    // SAFETY: creates another handle to the same tensor; the caller keeps its own.
    unsafe { Tensor::clone_from_ptr(tensor) }
}

/// The same for a tensor that may be absent.
///
/// # Safety
/// `tensor` must be null or a live `at::Tensor*`.
pub(super) unsafe fn borrow_some(tensor: *mut C_tensor) -> Option<Tensor> {
    // SAFETY: not null; the caller's obligation.
    (!tensor.is_null()).then(|| unsafe { borrow(tensor) })
}

/// Transfers ownership of a tensor to the other side.
pub(super) fn hand_over(tensor: Tensor) -> *mut C_tensor {
    ManuallyDrop::new(tensor).as_mut_ptr()
}

/// # Safety
/// `list` must be a valid record of live tensors.
pub(super) unsafe fn tensors(list: *const TensorList) -> Result<Tensors> {
    let mut all = Tensors::default();
    // SAFETY: the caller's obligation.
    unsafe {
        let list = read(list)?;
        let names = slice(list.names, list.count, usize::MAX, "names")?;
        let handles = slice(list.tensors, list.count, usize::MAX, "tensors")?;
        for (name, tensor) in names.iter().zip(handles) {
            all.insert(name.read("the name of a tensor")?, borrow(*tensor));
        }
    }
    Ok(all)
}

/// # Safety
/// `step` must be a valid record.
pub(super) unsafe fn step(step: *const StepRecord) -> Result<StepInfo> {
    // SAFETY: the caller's obligation.
    let StepRecord { epoch, epochs, step, steps, global_step, classes, samples, .. } = unsafe { read(step) }?;
    Ok(StepInfo { epoch, epochs, step, steps, global_step, classes, samples })
}

/// # Safety
/// `shape` must be a valid record.
pub(super) unsafe fn sizes(shape: *const Shape) -> Result<crate::Shape> {
    // SAFETY: the caller's obligation.
    let Shape { classes, samples, embedding, .. } = unsafe { read(shape) }?;
    Ok(crate::Shape { classes, samples, embedding })
}

/// Calls `work` with a borrowed batch and a log, whose contents are passed on.
///
/// # Safety
/// Both must be valid records.
pub(super) unsafe fn with_batch<T>(
    batch: *const Batch,
    log: *const Log,
    work: impl FnOnce(&crate::Batch, &mut crate::Log) -> Result<T>,
) -> Result<T> {
    // SAFETY: the caller's obligation; the host lends live tensors, some of which may be null.
    let (lent, sink) = unsafe { (read(batch)?, read(log)?) };
    // SAFETY: as above.
    let (embeddings, labels, ids, weights, ema_embeddings, tensors, info) = unsafe {
        (
            borrow(lent.embeddings),
            borrow(lent.labels),
            borrow(lent.ids),
            borrow_some(lent.weights),
            borrow_some(lent.ema_embeddings),
            tensors(lent.tensors)?,
            step(lent.step)?,
        )
    };
    let batch = crate::Batch {
        weights: weights.as_ref(),
        ema_embeddings: ema_embeddings.as_ref(),
        info,
        ..crate::Batch::new(&embeddings, &labels, &ids, &tensors)
    };
    let mut log = if sink.enabled != 0 { crate::Log::enabled() } else { crate::Log::disabled() };
    let value = work(&batch, &mut log)?;
    if let Some(write) = sink.per_sample {
        for (name, values) in log.take_per_sample() {
            write(sink.context, Str::new(&name), hand_over(values));
        }
    }
    if let Some(write) = sink.scalar {
        for (name, scalar) in log.into_scalars() {
            write(sink.context, Str::new(&name), hand_over(scalar));
        }
    }
    Ok(value)
}

/// Declares tensors.
///
/// # Safety
/// Both must be valid records.
pub(super) unsafe fn declare(
    shape: *const Shape,
    sink: *const TensorSink,
    specs: impl FnOnce(&crate::Shape) -> Vec<crate::TensorSpec>,
) -> Result<()> {
    // SAFETY: the caller's obligation.
    let (shape, sink) = unsafe { (sizes(shape)?, read(sink)?) };
    let Some(write) = sink.declare else { return Ok(()) };
    for spec in specs(&shape) {
        let (init, init_a, init_b) = match spec.init {
            Init::Constant(value) => (INIT_CONSTANT, value, 0.0),
            Init::Normal { std } => (INIT_NORMAL, std, 0.0),
            Init::Uniform { low, high } => (INIT_UNIFORM, low, high),
        };
        let record = TensorSpec {
            size: size_of::<TensorSpec>(),
            name: Str::new(&spec.name),
            shape: spec.shape.as_ptr(),
            dimensions: spec.shape.len(),
            kind: kind_code(spec.kind),
            init,
            init_a,
            init_b,
            trainable: u64::from(spec.trainable),
            group: Str::new(&spec.group),
            lr_scale: spec.lr_scale,
        };
        write(sink.context, &raw const record);
    }
    Ok(())
}

/// Passes advice on.
///
/// # Safety
/// Both must be valid records.
pub(super) unsafe fn advise(
    data: *const DataFacts,
    sink: *const AdviceSink,
    advice: impl FnOnce(&crate::DataFacts) -> Vec<crate::Advice>,
) -> Result<()> {
    // SAFETY: the caller's obligation.
    let (data, sink) = unsafe { (read(data)?, read(sink)?) };
    let Some(write) = sink.advise else { return Ok(()) };
    // SAFETY: the caller's obligation.
    let class_sizes = unsafe { slice(data.class_sizes, data.classes, usize::MAX, "class sizes") }?;
    let facts = crate::DataFacts { class_sizes, embedding_size: data.embedding_size, batch_size: data.batch_size };
    for piece in advice(&facts) {
        write(sink.context, Str::new(&piece.path), Str::new(&piece.message));
    }
    Ok(())
}
