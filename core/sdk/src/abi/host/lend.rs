//! What the host lends to a library, and the tensors it gets back.

use super::call::MOST;
use crate::abi::records::{Batch, DataFacts, LossInfo, Shape, StepRecord, Str, TensorList};
use crate::{Error, Result, Tensors};
use tch::Tensor;
use torch_sys::C_tensor;

/// Lends a tensor to the library.
pub(super) fn lend(tensor: &Tensor) -> *mut C_tensor {
    tensor.as_ptr().cast_mut()
}

/// Lends a tensor that may be absent.
pub(super) fn lend_some(tensor: Option<&Tensor>) -> *mut C_tensor {
    tensor.map_or(std::ptr::null_mut(), lend)
}

/// The arrays behind a [`TensorList`].
pub(super) struct LentTensors {
    names: Vec<Str>,
    tensors: Vec<*mut C_tensor>,
}

impl LentTensors {
    pub(super) fn new(tensors: &Tensors) -> Self {
        let (names, tensors) = tensors.iter().map(|(name, tensor)| (Str::new(name), lend(tensor))).unzip();
        Self { names, tensors }
    }

    pub(super) fn list(&self) -> TensorList {
        TensorList {
            size: size_of::<TensorList>(),
            count: self.names.len(),
            names: self.names.as_ptr(),
            tensors: self.tensors.as_ptr(),
        }
    }
}

pub(super) fn lend_step(info: &crate::StepInfo) -> StepRecord {
    let crate::StepInfo { epoch, epochs, step, steps, global_step, classes, samples } = *info;
    StepRecord { size: size_of::<StepRecord>(), epoch, epochs, step, steps, global_step, classes, samples }
}

pub(super) fn lend_shape(shape: &crate::Shape) -> Shape {
    Shape { size: size_of::<Shape>(), classes: shape.classes, samples: shape.samples, embedding: shape.embedding }
}

pub(super) fn lend_facts(data: &crate::DataFacts) -> DataFacts {
    DataFacts {
        size: size_of::<DataFacts>(),
        class_sizes: data.class_sizes.as_ptr(),
        classes: data.class_sizes.len(),
        embedding_size: data.embedding_size,
        batch_size: data.batch_size,
    }
}

pub(super) fn lend_loss_info(name: &str, settings: &str) -> LossInfo {
    LossInfo { size: size_of::<LossInfo>(), name: Str::new(name), settings: Str::new(settings) }
}

/// Lends a batch to `work`.
pub(super) fn with_batch<T>(batch: &crate::Batch, work: impl FnOnce(*const Batch, Returned) -> T) -> T {
    let tensors = LentTensors::new(batch.tensors);
    let (list, step) = (tensors.list(), lend_step(&batch.info));
    let lent = Batch {
        size: size_of::<Batch>(),
        embeddings: lend(batch.embeddings),
        labels: lend(batch.labels),
        ids: lend(batch.ids),
        weights: lend_some(batch.weights),
        ema_embeddings: lend_some(batch.ema_embeddings),
        tensors: &raw const list,
        step: &raw const step,
    };
    let inputs = [lent.embeddings, lent.labels, lent.ids, lent.weights, lent.ema_embeddings];
    let known = inputs.into_iter().chain(tensors.tensors.iter().copied()).collect();
    work(&raw const lent, Returned { known, alive: Vec::new() })
}

/// The tensors that a library hands over during one call.
///
/// Deleting one that is still lent, or was handed over twice, would be a double free, so those are errors.
pub(super) struct Returned {
    known: Vec<*mut C_tensor>,
    /// Not deleted before the call ends, so that a new tensor never has the address of an earlier one.
    alive: Vec<Tensor>,
}

impl Returned {
    /// Takes ownership of a tensor.
    ///
    /// # Safety
    /// `tensor` must be null, lent in this call, or a live `at::Tensor*` that the library hands over.
    pub(super) unsafe fn take(&mut self, tensor: *mut C_tensor, what: &str) -> Result<Tensor> {
        if tensor.is_null() {
            return Err(Error::other(format!("returned null instead of {what}")));
        }
        if self.known.contains(&tensor) {
            return Err(Error::other(format!(
                "returned a borrowed tensor as {what}; return a new handle, `new at::Tensor(*borrowed)`"
            )));
        }
        if self.alive.len() >= MOST {
            return Err(Error::other(format!("returned more than {MOST} tensors in one call")));
        }
        self.known.push(tensor);
        // SAFETY: the library transferred ownership, once.
        let tensor = unsafe { Tensor::from_ptr(tensor) };
        if !tensor.defined() {
            return Err(Error::other(format!("returned an undefined tensor as {what}")));
        }
        let handle = tensor.shallow_clone();
        self.alive.push(tensor);
        Ok(handle)
    }
}
