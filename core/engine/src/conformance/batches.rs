//! Test batches for losses.

use super::{NotPassed, Subject, fail};
use crate::call::call;
use crate::last_words::Running;
use crate::train::{Declared, LOSS_COLUMNS, SampleColumns, check_connected, check_log, check_loss, graph_error};
use curricle_sdk::{Batch, Error, Log, Loss, Shape, StepInfo, Tensors, rng};
use rand::RngExt;
use tch::{Device, Kind, Tensor};

/// Number of classes. It differs from all other sizes, so that a declared tensor with this many rows
/// has one row per class.
pub(super) const CLASSES: i64 = 7;
/// Number of training samples.
pub(super) const SAMPLES: i64 = 50;
/// Size of the embeddings.
pub(super) const DIMENSIONS: i64 = 8;
/// Epochs of the training that the checks pretend to be in. Components may begin with a warm-up, so the checks are made
/// at its start and at its end.
pub(super) const EPOCHS: u64 = 10;
/// Steps in each of its epochs.
const STEPS: u64 = 5;

/// A batch and the tensors of the loss.
pub(super) struct Case {
    /// `[B, D]`, a leaf that requires gradients.
    pub embeddings: Tensor,
    /// `[B]`.
    pub labels: Tensor,
    /// `[B]`.
    pub ids: Tensor,
    /// `[B]` or none.
    pub weights: Option<Tensor>,
    /// The tensors declared by the loss.
    pub tensors: Tensors,
    /// `[B, D]`, the teacher's embeddings; by default close to the embeddings, wherever they are.
    teacher: Option<Tensor>,
    /// Steps before this one.
    global_step: u64,
}

/// A loss and all its gradients, by name; `embeddings` is the first.
pub(super) struct LossOutcome {
    /// The loss.
    pub loss: Tensor,
    /// The gradients.
    pub gradients: Vec<(String, Tensor)>,
}

/// The loss under test.
pub(super) fn make(subject: &Subject) -> Result<Box<dyn Loss>, NotPassed> {
    Ok(call(Running::as_noted(), &[], || subject.component.factory.loss(&subject.settings))?)
}

impl Case {
    /// Four classes of three samples, in double precision.
    pub(super) fn usual(loss: &dyn Loss, number: u64) -> Result<Self, NotPassed> {
        Self::new(loss, &[0, 0, 0, 2, 2, 2, 3, 3, 3, 6, 6, 6], number)
    }

    /// Random unit vectors with these labels. Each `number` gives a different batch.
    pub(super) fn new(loss: &dyn Loss, labels: &[i64], number: u64) -> Result<Self, NotPassed> {
        let mut stream = rng::stream(number, "conformance", 0, 0);
        let size = labels.len() as i64;
        let values: Vec<f64> = (0..size * DIMENSIONS).map(|_| stream.random_range(-1.0..1.0)).collect();
        let embeddings = unit(&Tensor::from_slice(&values).view([size, DIMENSIONS]));
        Self::with(loss, embeddings, labels)
    }

    /// These embeddings with these labels; every row is a different sample.
    pub(super) fn with(loss: &dyn Loss, embeddings: Tensor, labels: &[i64]) -> Result<Self, NotPassed> {
        let shape = Shape { classes: CLASSES, samples: SAMPLES, embedding: DIMENSIONS };
        let declared = Declared::of_loss(loss, &shape, 1, Device::Cpu)?;
        let case = Self {
            embeddings,
            labels: Tensor::from_slice(labels),
            ids: Tensor::arange(labels.len() as i64, (Kind::Int64, Device::Cpu)),
            weights: None,
            tensors: declared.tensors,
            teacher: None,
            global_step: 0,
        };
        Ok(case.to(Kind::Double, Device::Cpu))
    }

    /// A copy in another precision or on another device, with separate leaves.
    pub(super) fn to(&self, kind: Kind, device: Device) -> Self {
        let float = |t: &Tensor| t.detach().copy().to_kind(kind).to_device(device);
        let mut tensors = Tensors::default();
        for (name, tensor) in self.tensors.iter() {
            let copied = if tensor.is_floating_point() { float(tensor) } else { tensor.copy().to_device(device) };
            tensors.insert(name, copied.set_requires_grad(tensor.requires_grad()));
        }
        Self {
            embeddings: float(&self.embeddings).set_requires_grad(true),
            labels: self.labels.copy().to_device(device),
            ids: self.ids.copy().to_device(device),
            weights: self.weights.as_ref().map(float),
            tensors,
            teacher: self.teacher.as_ref().map(float),
            global_step: self.global_step,
        }
    }

    /// The same case with a teacher that stays where it is when the embeddings move.
    pub(super) fn with_fixed_teacher(mut self) -> Self {
        self.teacher = Some(self.teacher());
        self
    }

    fn teacher(&self) -> Tensor {
        self.teacher.as_ref().map_or_else(|| unit(&(self.embeddings.detach() + 0.01)), Tensor::shallow_clone)
    }

    /// A copy of everything.
    pub(super) fn copy(&self) -> Self {
        self.to(self.embeddings.kind(), self.embeddings.device())
    }

    /// The loss without gradients, checked for shape, type, device and connection to the embeddings.
    pub(super) fn value(&self, loss: &dyn Loss) -> Result<Tensor, NotPassed> {
        self.value_seeded(loss, 0)
    }

    /// The same, with another state of libtorch's random generator.
    ///
    /// The call works on a copy of the loss's state, so that every call starts from the same state.
    pub(crate) fn value_seeded(&self, loss: &dyn Loss, seed: i64) -> Result<Tensor, NotPassed> {
        let mut tensors = Tensors::default();
        for (name, tensor) in self.tensors.iter() {
            tensors.insert(name, if tensor.requires_grad() { tensor.shallow_clone() } else { tensor.copy() });
        }
        self.call(loss, &tensors, seed)
    }

    /// The same case as the last step of training, with the state that the loss has after other batches.
    pub(super) fn late(mut self, loss: &dyn Loss) -> Result<Self, NotPassed> {
        self.global_step = EPOCHS * STEPS - 1;
        for (number, global_step) in [(1, 0), (2, self.global_step - 1)] {
            let mut other = Self::usual(loss, 99 + number)?;
            // Other samples than those of the usual batch, and below `SAMPLES`.
            other.ids = &other.ids + 15 * number as i64;
            other.global_step = global_step;
            let _ = other.call(loss, &self.tensors, 0)?;
            call(Running::as_noted(), &[], || tch::no_grad(|| loss.after_step(&self.tensors, &other.info())))?;
        }
        Ok(self)
    }

    fn info(&self) -> StepInfo {
        let (epoch, step, global_step) = (self.global_step / STEPS, self.global_step % STEPS, self.global_step);
        StepInfo { epoch, epochs: EPOCHS, step, steps: STEPS, global_step, classes: CLASSES, samples: SAMPLES }
    }

    fn call(&self, loss: &dyn Loss, tensors: &Tensors, seed: i64) -> Result<Tensor, NotPassed> {
        curricle_torch::seed(seed).map_err(curricle_sdk::Error::from)?;
        let average = loss.needs_ema().then(|| self.teacher());
        let batch = Batch {
            // Losses that do not take weights are never given any.
            weights: self.weights.as_ref().filter(|_| loss.takes_weights()),
            ema_embeddings: average.as_ref(),
            info: self.info(),
            ..Batch::new(&self.embeddings, &self.labels, &self.ids, tensors)
        };
        let mut lent = vec![("embeddings", batch.embeddings), ("labels", batch.labels), ("ids", batch.ids)];
        lent.extend(batch.weights.map(|weights| ("weights", weights)));
        lent.extend(tensors.iter().filter(|(_, tensor)| tensor.requires_grad()));
        let mut log = Log::enabled();
        let value = call(Running::as_noted(), &lent, || {
            let value = check_loss(loss.forward(&batch, &mut log)?, &self.embeddings)?;
            check_connected(&value, &self.embeddings)?;
            check_log(&log)?;
            let mut columns = SampleColumns::new(SAMPLES as usize, self.embeddings.device());
            columns.keep(LOSS_COLUMNS, &self.ids, log.take_per_sample())?;
            Ok(value)
        });
        let value = value.map_err(|error| explain(error, self.embeddings.kind()))?;
        self.check_state(tensors)?;
        Ok(value)
    }

    /// Tensors that are not trainable keep their shape and have no gradient.
    fn check_state(&self, tensors: &Tensors) -> Result<(), NotPassed> {
        for (name, before) in self.tensors.iter().filter(|(_, tensor)| !tensor.requires_grad()) {
            let after = tensors.get(name);
            if after.requires_grad() {
                return fail(format!(
                    "it wrote values with a gradient into its tensor `{name}`; write them without gradients, e.g. with \
                     `tch::no_grad` or `curricle::NoGradGuard`, or detach them"
                ));
            }
            if after.size() != before.size() || after.kind() != before.kind() {
                let (size, kind) = (after.size(), after.kind());
                return fail(format!(
                    "it changed its tensor `{name}` to {kind:?} {size:?}; change its values in place"
                ));
            }
        }
        Ok(())
    }

    /// The loss and its gradients.
    pub(super) fn run(&self, loss: &dyn Loss) -> Result<LossOutcome, NotPassed> {
        for leaf in self.leaves() {
            leaf.1.shallow_clone().zero_grad();
        }
        let value = self.value(loss)?;
        if self.leaves().iter().any(|(_, leaf)| has_gradient(leaf)) {
            return fail("it ran its own backward pass, which left gradients in its inputs; return the loss instead");
        }
        call(Running::as_noted(), &[], || Ok(value.f_backward()?)).map_err(|error| graph_error(error, &[]))?;
        let gradient = |(name, leaf): (String, Tensor)| {
            let gradient = leaf.grad();
            let gradient = if gradient.defined() { gradient.copy() } else { leaf.zeros_like() };
            (name, gradient)
        };
        Ok(LossOutcome { loss: value.detach(), gradients: self.leaves().into_iter().map(gradient).collect() })
    }

    /// All leaves that require gradients.
    pub(super) fn leaves(&self) -> Vec<(String, Tensor)> {
        let declared = self.tensors.iter().filter(|(_, tensor)| tensor.requires_grad());
        let declared = declared.map(|(name, tensor)| (format!("tensor `{name}`"), tensor.shallow_clone()));
        std::iter::once(("embeddings".to_string(), self.embeddings.shallow_clone())).chain(declared).collect()
    }
}

/// Elsewhere than on a CPU this would wait for the device, which is what one of the checks counts.
fn has_gradient(leaf: &Tensor) -> bool {
    let gradient = leaf.grad();
    if leaf.device() != Device::Cpu {
        return false;
    }
    gradient.defined() && gradient.count_nonzero(None::<i64>).int64_value(&[]) > 0
}

/// Adds a remedy to what libtorch says of mistakes that a run does not have, or has another message for: its embeddings
/// are in single precision and no leaves.
fn explain(error: Error, kind: Kind) -> Error {
    let Error::Torch(message) = &error else { return error };
    let two_types = ["loat", "ouble"].iter().all(|word| message.contains(word));
    let remedy = if message.contains("leaf Variable") {
        "The loss changes an input in place; it must change a copy instead"
    } else if kind == Kind::Double && two_types {
        "The check computes in double precision, declared tensors included: convert to the type of the embeddings, not \
         to Float"
    } else {
        return error;
    };
    Error::Torch(format!("{}. {remedy}", message.trim_end_matches('.')))
}

/// Rows of unit length.
pub(super) fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2.0, [-1], true).clamp_min(1e-12)
}

/// Why a component gives two results for the same inputs, state and generator.
pub(super) const HIDDEN_STATE: &str = "declare what it remembers in `tensors`, and draw random numbers from libtorch's \
                                       generator only";

/// Whether the loss draws random numbers, so that some equalities cannot be checked.
pub(crate) fn is_random(loss: &dyn Loss) -> Result<bool, NotPassed> {
    let case = Case::usual(loss, 0)?;
    let value = |seed| Ok::<_, NotPassed>(case.value_seeded(loss, seed)?.double_value(&[]));
    let (first, again) = (value(0)?, value(0)?);
    if first.to_bits() != again.to_bits() {
        // Not of libtorch's generator, which was the same.
        return fail(format!("called twice, the loss is {first:.9} and then {again:.9}; {HIDDEN_STATE}"));
    }
    for seed in 1..4 {
        if value(seed)? != first {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Relative distance between two tensors.
pub(super) fn distance(a: &Tensor, b: &Tensor) -> f64 {
    let difference = (a - b).norm().double_value(&[]);
    difference / (a.norm().double_value(&[]) + b.norm().double_value(&[])).max(1e-8)
}

/// Checks that two outcomes agree within a relative tolerance.
pub(super) fn same(a: &LossOutcome, b: &LossOutcome, tolerance: f64) -> Result<(), String> {
    // This form does not accept NaN.
    let near = |distance: f64| distance <= tolerance;
    let (x, y) = (a.loss.double_value(&[]), b.loss.double_value(&[]));
    if !near((x - y).abs() / x.abs().max(y.abs()).max(1e-8)) {
        return Err(format!("the loss is {x:.9} and then {y:.9}"));
    }
    for ((name, a), (_, b)) in a.gradients.iter().zip(&b.gradients) {
        let distance = distance(a, b);
        if !near(distance) {
            return Err(format!("the gradients of the {name} differ by {distance:.1e}"));
        }
    }
    Ok(())
}
