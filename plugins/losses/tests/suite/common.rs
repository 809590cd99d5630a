//! Creates losses and batches, and evaluates one on the other.

use curricle_sdk::rand::{Rng, RngExt};
use curricle_sdk::{Batch, ComponentKind, Init, Log, Loss, Shape, StepInfo, Tensors, registered, rng};
use serde_json::Value;
use std::sync::Mutex;
use tch::{Device, Kind, Tensor};

// Linking the crate is what registers its losses.
use curricle_losses as _;

/// Number of training classes in the tests.
pub(crate) const CLASSES: i64 = 6;

/// libtorch's generator is shared by all test threads, so a seed holds only while no other thread draws.
static GENERATOR: Mutex<()> = Mutex::new(());

/// A loss by name and JSON settings.
pub(crate) fn make(name: &str, settings: &Value) -> Box<dyn Loss> {
    let found = registered().into_iter().find(|c| c.kind == ComponentKind::Loss && c.name == name);
    let component = found.unwrap_or_else(|| panic!("there is no loss `{name}`"));
    component.factory.loss(settings).unwrap_or_else(|e| panic!("loss `{name}` {settings}: {e}"))
}

/// The tensors of one batch.
#[derive(Debug)]
pub(crate) struct Data {
    pub embeddings: Tensor,
    pub labels: Tensor,
    pub ids: Tensor,
    pub weights: Option<Tensor>,
    /// Those that require gradients are trained, the others are state.
    pub tensors: Vec<(String, Tensor)>,
    pub info: StepInfo,
}

/// Value and derivatives of a loss.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub loss: Tensor,
    pub grad: Tensor,
    pub tensor_grads: Vec<(String, Tensor)>,
    /// The tensors that are not trained, after the call.
    pub state: Vec<(String, Tensor)>,
}

impl Outcome {
    pub(crate) fn value(&self) -> f64 {
        self.loss.double_value(&[])
    }
}

impl Data {
    /// A batch in f64 around class centres, with the tensors `loss` declares.
    pub(crate) fn random(loss: &dyn Loss, labels: &[i64], dimensions: i64, seed: u64) -> Self {
        let mut random = rng::stream(seed, "test batch", 0, 0);
        let size = labels.len() as i64;
        let labels = Tensor::from_slice(labels);
        let centres = normal(&mut random, &[CLASSES, dimensions]);
        let raw = centres.index_select(0, &labels) + normal(&mut random, &[size, dimensions]) * 0.9;
        let mut data = Self {
            embeddings: &raw / raw.norm_scalaropt_dim(2.0, 1, true),
            labels,
            ids: Tensor::arange(size, (Kind::Int64, Device::Cpu)),
            weights: None,
            tensors: Vec::new(),
            info: StepInfo::default(),
        };
        let shape = Shape { classes: CLASSES, samples: size, embedding: dimensions };
        for spec in loss.tensors(&shape) {
            let noise = normal(&mut random, &spec.shape);
            let value = match spec.init {
                Init::Constant(value) if !spec.trainable => {
                    let kind = if spec.kind == Kind::Float { Kind::Double } else { spec.kind };
                    Tensor::full(&spec.shape, value, (kind, Device::Cpu))
                }
                Init::Constant(value) => noise * 0.1 + value,
                Init::Normal { std } => noise * std,
                Init::Uniform { low, high } => noise.sigmoid() * (high - low) + low,
            };
            data.tensors.push((spec.name.to_string(), value.set_requires_grad(spec.trainable)));
        }
        data
    }

    /// The same batch with random weights from 0.1 to 1.
    pub(crate) fn with_random_weights(mut self, seed: u64) -> Self {
        let mut random = rng::stream(seed, "test weights", 0, 0);
        let weights: Vec<f64> = (0..self.size()).map(|_| random.random_range(0.1..1.0)).collect();
        self.weights = Some(Tensor::from_slice(&weights));
        self
    }

    pub(crate) fn size(&self) -> i64 {
        self.embeddings.size()[0]
    }

    /// The same rows in another order, or only some of them.
    pub(crate) fn rows(&self, rows: &[i64]) -> Self {
        let rows = Tensor::from_slice(rows);
        Self {
            embeddings: self.embeddings.index_select(0, &rows),
            labels: self.labels.index_select(0, &rows),
            ids: self.ids.index_select(0, &rows),
            weights: self.weights.as_ref().map(|w| w.index_select(0, &rows)),
            tensors: self.tensors.iter().map(|(n, t)| (n.clone(), t.shallow_clone())).collect(),
            info: self.info,
        }
    }

    /// Everything but labels and ids in another precision.
    pub(crate) fn to_kind(&self, kind: Kind) -> Self {
        let mut data = self.rows(&(0..self.size()).collect::<Vec<_>>());
        data.embeddings = data.embeddings.to_kind(kind);
        data.weights = data.weights.map(|w| w.to_kind(kind));
        for (_, tensor) in data.tensors.iter_mut().filter(|(_, t)| t.is_floating_point()) {
            *tensor = tensor.detach().to_kind(kind).set_requires_grad(tensor.requires_grad());
        }
        data
    }

    /// Value and derivatives of a loss on this batch, always with the same random draws.
    pub(crate) fn evaluate(&self, loss: &dyn Loss) -> Outcome {
        self.evaluate_with_seed(loss, 3)
    }

    /// Value and derivatives of a loss on this batch, with the random draws of this seed.
    pub(crate) fn evaluate_with_seed(&self, loss: &dyn Loss, seed: i64) -> Outcome {
        let mut log = Log::enabled();
        let outcome = self.differentiate(seed, |batch| loss.forward(batch, &mut log).unwrap());
        for (name, scalar) in log.into_scalars() {
            assert_eq!(scalar.numel(), 1, "logged `{name}` is one number");
        }
        outcome
    }

    /// Value and derivatives of a function of this batch, with the random draws of this seed.
    pub(crate) fn differentiate(&self, seed: i64, function: impl FnOnce(&Batch) -> Tensor) -> Outcome {
        let embeddings = self.embeddings.copy().set_requires_grad(true);
        let mut tensors = Tensors::default();
        for (name, tensor) in &self.tensors {
            tensors.insert(name.clone(), tensor.detach().copy().set_requires_grad(tensor.requires_grad()));
        }
        let weights = self.weights.as_ref();
        let batch = Batch { weights, info: self.info, ..Batch::new(&embeddings, &self.labels, &self.ids, &tensors) };
        let value = {
            let _alone = GENERATOR.lock().unwrap();
            curricle_torch::seed(seed).unwrap();
            function(&batch)
        };
        assert_eq!(value.size(), [0i64; 0], "a loss is a scalar");
        value.backward();
        Outcome {
            loss: value.detach(),
            grad: embeddings.grad(),
            tensor_grads: tensors
                .iter()
                .filter(|(_, tensor)| tensor.requires_grad())
                .map(|(name, tensor)| (name.to_string(), tensor.grad()))
                .collect(),
            state: tensors
                .iter()
                .filter(|(_, tensor)| !tensor.requires_grad())
                .map(|(name, tensor)| (name.to_string(), tensor.shallow_clone()))
                .collect(),
        }
    }
}

fn normal(random: &mut impl Rng, shape: &[i64]) -> Tensor {
    let numbers: Vec<f64> = (0..shape.iter().product::<i64>())
        .map(|_| {
            let (u, v): (f64, f64) = (random.random_range(1e-12..1.0), random.random());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        })
        .collect();
    Tensor::from_slice(&numbers).view(shape)
}

/// Largest difference, relative to the larger of 1 and the reference's largest element.
pub(crate) fn difference(ours: &Tensor, reference: &Tensor) -> f64 {
    assert_eq!(ours.size(), reference.size());
    let reference = reference.to_kind(Kind::Double);
    let scale = reference.abs().max().double_value(&[]).max(1.0);
    (ours.to_kind(Kind::Double) - reference).abs().max().double_value(&[]) / scale
}

/// Whether every element is a finite number.
pub(crate) fn all_finite(tensor: &Tensor) -> bool {
    tensor.isfinite().all().int64_value(&[]) == 1
}
