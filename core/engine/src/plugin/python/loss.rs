//! A class of a Python file as a loss.

use super::memory::{Layout, Places, Slot};
use super::worker::Worker;
use curricle_sdk::gradients::with_gradients;
use curricle_sdk::{Batch, Error, Factory, Init, Log, Loss, Result, Shape, TensorSpec, Tensors};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
        let (worker, class) = (Arc::clone(&self.worker), Arc::clone(&self.class));
        Ok(Box::new(PythonLoss { worker, class, number, known: Mutex::new(None) }))
    }
}

/// An object in the process.
struct PythonLoss {
    worker: Arc<Worker>,
    class: Arc<PythonClass>,
    number: u64,
    /// Where the tensors of the last step were, which the process remembers.
    known: Mutex<Option<Places>>,
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

impl Loss for PythonLoss {
    fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
        if batch.weights.is_some() && !self.takes_weights() {
            return Err(Error::other("samples have weights, which `forward` does not take; add an argument `weights`"));
        }
        let (kind, device) = batch.options();
        let weights = batch.weights_or_ones();
        let mut inputs = vec![("embeddings", kind, batch.embeddings), ("labels", Kind::Int64, batch.labels)];
        inputs.extend(self.takes_weights().then_some(("weights", kind, &weights)));
        inputs.extend(self.class.takes("ids").then_some(("ids", Kind::Int64, batch.ids)));
        let trained: Vec<_> = batch.tensors.iter().filter(|(_, tensor)| tensor.requires_grad()).collect();

        let size = batch.embeddings.size();
        let mut layout = Layout::default();
        let mut places = Places {
            inputs: inputs.iter().map(|(name, kind, tensor)| (*name, layout.slot(*kind, &tensor.size()))).collect(),
            tensors: layout.slots(batch.tensors.iter()),
            results: BTreeMap::from([("value", layout.slot(kind, &[])), ("gradient", layout.slot(kind, &size))]),
            gradients: layout.slots(trained.iter().copied()),
            memory: 0,
        };

        let mut request = self.request("forward", batch.info.classes, size[1]);
        // The engine seeds libtorch's generator before every step, so a resumed run draws the same number.
        request["seed"] = Tensor::f_randint(1 << 53, [1], (Kind::Int64, Device::Cpu))?.int64_value(&[0]).into();
        let mut process = self.worker.lock();
        places.memory = process.memory.reserve(&layout)?;
        for (name, _, tensor) in &inputs {
            process.memory.write(&places.inputs[name], tensor)?;
        }
        for (name, tensor) in batch.tensors.iter() {
            process.memory.write(&places.tensors[name], tensor)?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // If this step fails, the next one says again where everything is.
        if known.take().as_ref() != Some(&places) {
            request["places"] = json!(places);
        }
        let changed = process.compute("`forward`", request)?;

        let mut read = |slot: &Slot| process.memory.read(slot);
        let found = {
            let _no_grad = tch::no_grad_guard();
            for name in changed {
                if let Some(slot) = places.tensors.get(&name) {
                    batch.tensors.get(&name).shallow_clone().f_copy_(&read(slot)?)?;
                }
            }
            let slots = [&places.results["value"], &places.results["gradient"]].into_iter();
            let found = slots.chain(places.gradients.values()).map(|slot| Ok(read(slot)?.to_device(device)));
            found.collect::<Result<Vec<_>>>()?
        };
        *known = Some(places);
        let leaves: Vec<_> =
            std::iter::once(batch.embeddings).chain(trained.iter().map(|(_, tensor)| *tensor)).collect();
        with_gradients(&found[0], &leaves, &found[1..].iter().collect::<Vec<_>>())
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        // Callers use `guard`, which returns this error.
        self.declare(shape).unwrap_or_else(|error| std::panic::panic_any(error))
    }

    fn initialise(&self, tensors: &Tensors, shape: &Shape, seed: u64) -> Result<()> {
        let mut layout = Layout::default();
        let mut places = Places { tensors: layout.slots(tensors.iter()), ..Places::default() };
        let mut request = self.request("initialise", shape.classes, shape.embedding);
        // The seeds of Python's generators have 64 bits, those of JSON numbers in other programs 53.
        request["seed"] = (seed >> 11).into();
        let mut process = self.worker.lock();
        places.memory = process.memory.reserve(&layout)?;
        request["places"] = json!(places);
        process.compute("`__init__`", request)?;
        for (name, tensor) in tensors.iter() {
            tensor.shallow_clone().f_copy_(&process.memory.read(&places.tensors[name])?)?;
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
