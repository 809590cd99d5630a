//! A class of a Python file as a loss.

use super::memory::{Layout, Slot};
use super::worker::Worker;
use curricle_sdk::gradients::with_gradients;
use curricle_sdk::{Batch, Error, Factory, Init, Log, Loss, Result, Shape, TensorSpec, Tensors};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tch::{Device, Kind, Tensor};

/// What the process says of a class.
#[derive(Debug, Deserialize)]
pub(super) struct PythonClass {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) summary: String,
    schema: Value,
    /// The optional inputs that `forward` takes: `weights`, `ids`.
    inputs: Vec<String>,
}

impl PythonClass {
    fn takes(&self, input: &str) -> bool {
        self.inputs.iter().any(|name| name == input)
    }
}

/// Creates losses of one class.
pub(super) struct PythonFactory {
    worker: Arc<Worker>,
    class: Arc<PythonClass>,
}

impl PythonFactory {
    pub(super) fn new(worker: Arc<Worker>, class: PythonClass) -> Self {
        Self { worker, class: Arc::new(class) }
    }

    pub(super) fn class(&self) -> &PythonClass {
        &self.class
    }
}

impl Factory for PythonFactory {
    fn schema(&self) -> Value {
        self.class.schema.clone()
    }

    fn loss(&self, settings: &Value) -> Result<Box<dyn Loss>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let request = json!({ "do": "make", "loss": number, "class": self.class.name, "settings": settings });
        self.worker.lock().call("`__init__`", &request)?;
        Ok(Box::new(PythonLoss { worker: Arc::clone(&self.worker), class: Arc::clone(&self.class), number }))
    }
}

/// An object in the process.
struct PythonLoss {
    worker: Arc<Worker>,
    class: Arc<PythonClass>,
    number: u64,
}

impl Drop for PythonLoss {
    fn drop(&mut self) {
        let _ = self.worker.lock().call("removing a loss", &json!({ "do": "drop", "loss": self.number }));
    }
}

/// A parameter or buffer of the module.
#[derive(Deserialize)]
struct ModuleTensor {
    name: String,
    shape: Vec<i64>,
    kind: String,
    trainable: bool,
}

impl ModuleTensor {
    /// Its initial values come from the constructor; see [`Loss::initialise`].
    fn spec(self) -> Result<TensorSpec> {
        let kind = match self.kind.as_str() {
            "Float" => Kind::Float,
            "Double" => Kind::Double,
            "Int64" => Kind::Int64,
            "Int" => Kind::Int,
            "Uint8" => Kind::Uint8,
            "Bool" => Kind::Bool,
            other => return Err(Error::other(format!("`{}` has the unknown type {other}", self.name))),
        };
        Ok(TensorSpec {
            group: if self.trainable { self.name.clone().into() } else { "".into() },
            name: self.name.into(),
            shape: self.shape,
            kind,
            init: Init::Constant(0.0),
            trainable: self.trainable,
            lr_scale: 1.0,
        })
    }
}

fn parsed<T: DeserializeOwned>(reply: &mut Value, field: &str) -> Result<T> {
    serde_json::from_value(reply[field].take()).map_err(|e| Error::other(format!("the reply's `{field}`: {e}")))
}

impl PythonLoss {
    fn request(&self, what: &str, classes: i64, embedding: i64) -> Value {
        json!({ "do": what, "loss": self.number, "classes": classes, "embedding": embedding })
    }

    fn declare(&self, shape: &Shape) -> Result<Vec<TensorSpec>> {
        let request = self.request("declare", shape.classes, shape.embedding);
        let mut reply = self.worker.lock().call("`__init__`", &request)?;
        parsed::<Vec<ModuleTensor>>(&mut reply, "tensors")?.into_iter().map(ModuleTensor::spec).collect()
    }
}

/// A tensor and its place in shared memory.
type Placed<'t> = (Slot, &'t Tensor);

/// The places of tensors, as requests give them.
fn places(placed: &BTreeMap<&str, Placed>) -> Value {
    placed.iter().map(|(name, (slot, _))| ((*name).to_string(), json!(slot))).collect::<Map<_, _>>().into()
}

fn declared<'t>(tensors: &'t Tensors, layout: &mut Layout) -> BTreeMap<&'t str, Placed<'t>> {
    tensors.iter().map(|(name, tensor)| (name, (layout.slot(tensor.kind(), &tensor.size()), tensor))).collect()
}

impl Loss for PythonLoss {
    fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
        if batch.weights.is_some() && !self.takes_weights() {
            return Err(Error::other("samples have weights, which `forward` does not take; add an argument `weights`"));
        }
        let (kind, device) = batch.options();
        let shape = batch.embeddings.size();
        let mut layout = Layout::default();
        let declared = declared(batch.tensors, &mut layout);
        let value = layout.slot(kind, &[]);
        let mut inputs = BTreeMap::from([
            ("embeddings", (layout.slot(kind, &shape), batch.embeddings)),
            ("labels", (layout.slot(Kind::Int64, &shape[..1]), batch.labels)),
        ]);
        let weights = batch.weights_or_ones();
        if self.takes_weights() {
            inputs.insert("weights", (layout.slot(kind, &shape[..1]), &weights));
        }
        if self.class.takes("ids") {
            inputs.insert("ids", (layout.slot(Kind::Int64, &shape[..1]), batch.ids));
        }
        let gradient = layout.slot(kind, &shape);
        let gradients: BTreeMap<&str, Placed> = declared
            .iter()
            .filter(|(_, (_, tensor))| tensor.requires_grad())
            .map(|(name, (_, tensor))| (*name, (layout.slot(tensor.kind(), &tensor.size()), *tensor)))
            .collect();

        let mut request = self.request("forward", batch.info.classes, shape[1]);
        // The engine seeds libtorch's generator before every step, so a resumed run draws the same number.
        request["seed"] = Tensor::f_randint(1 << 53, [1], (Kind::Int64, Device::Cpu))?.int64_value(&[0]).into();
        request["value"] = json!(value);
        request["inputs"] = places(&inputs);
        request["tensors"] = places(&declared);
        request["gradient"] = json!(gradient);
        request["gradients"] = places(&gradients);

        let mut process = self.worker.lock();
        let lent = declared.values().chain(inputs.values());
        let changed: Vec<String> = process.compute("`forward`", request, &layout, lent)?;
        let _no_grad = tch::no_grad_guard();
        for (slot, tensor) in changed.iter().filter_map(|name| declared.get(name.as_str())) {
            tensor.shallow_clone().f_copy_(&process.memory.read(slot)?)?;
        }
        let slots = std::iter::once(&gradient).chain(gradients.values().map(|(slot, _)| slot));
        let found = slots.map(|slot| Ok(process.memory.read(slot)?.to_device(device))).collect::<Result<Vec<_>>>()?;
        let value = process.memory.read(&value)?.to_device(device);
        drop(_no_grad);
        let leaves: Vec<_> =
            std::iter::once(batch.embeddings).chain(gradients.values().map(|(_, tensor)| *tensor)).collect();
        with_gradients(&value, &leaves, &found.iter().collect::<Vec<_>>())
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        // Callers use `guard`, which returns this error.
        self.declare(shape).unwrap_or_else(|error| std::panic::panic_any(error))
    }

    fn initialise(&self, tensors: &Tensors, shape: &Shape, seed: u64) -> Result<()> {
        let mut layout = Layout::default();
        let declared = declared(tensors, &mut layout);
        let mut request = self.request("initialise", shape.classes, shape.embedding);
        // The seeds of Python's generators have 64 bits, those of JSON numbers in other programs 53.
        request["seed"] = (seed >> 11).into();
        request["tensors"] = places(&declared);
        let mut process = self.worker.lock();
        process.compute("`__init__`", request, &layout, std::iter::empty())?;
        for (slot, tensor) in declared.values() {
            tensor.shallow_clone().f_copy_(&process.memory.read(slot)?)?;
        }
        Ok(())
    }

    fn takes_weights(&self) -> bool {
        self.class.takes("weights")
    }

    fn runs_on_host(&self) -> bool {
        true
    }
}
