//! Evaluates a loss on one batch from a file.

use super::{read_tensors, write_tensors};
use crate::call::call;
use crate::held::Held;
use crate::last_words::running;
use crate::registry::Registry;
use crate::train::declared::Declared;
use crate::{Error, Result};
use curricle_sdk::{Batch, ComponentKind, Log, Loss, Shape, StepInfo, TensorSpec, Tensors, guard, rng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use tch::{Device, Kind, Tensor};

/// The loss and the batch to evaluate.
#[derive(Debug)]
pub struct LossProbe<'a> {
    /// The loss's name.
    pub name: &'a str,
    /// Its settings, as a JSON object.
    pub settings: &'a Value,
    /// Safetensors file with `embeddings [B,D]` (f32 or f64), `labels [B]` (i64), and optionally
    /// `weights [B]`, `ids [B]` (i64) and the tensors the loss declares.
    pub input: &'a Path,
    /// Seed of declared tensors that are not in the file, and of the loss's random numbers.
    pub seed: u64,
}

/// The result of a probe.
#[derive(Debug)]
pub struct LossProbed {
    /// `loss`, `grad`, and `grad.<tensor>` for each trainable declared tensor, in the precision of the
    /// embeddings.
    pub tensors: Vec<(String, Tensor)>,
    /// Times of forward plus backward in milliseconds, sorted.
    pub times: Vec<f64>,
    /// Input tensors that the loss does not use.
    pub unused: Vec<String>,
}

impl LossProbed {
    /// Writes the tensors atomically to a safetensors file.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_tensors(path, &self.tensors)
    }
}

impl LossProbe<'_> {
    /// Evaluates the loss and its gradients, then `steps` more times for timing.
    pub fn run(&self, registry: &Registry, steps: usize) -> Result<LossProbed> {
        let loss = self.make(registry)?;
        let given = self.read(&*loss)?;
        let failed = |source| Error::Component { kind: ComponentKind::Loss, name: self.name.to_string(), source };
        curricle_torch::seed(rng::seed_for(self.seed, "probe", 0, 0)).map_err(|e| failed(e.into()))?;
        let lent = given.lent();
        let step = || {
            let running = running(ComponentKind::Loss, self.name);
            call(running, &lent, || given.evaluate(&*loss)).map_err(failed)
        };
        let tensors = step()?;
        let warm_up = steps.div_ceil(5);
        let mut times = Vec::new();
        for _ in 0..warm_up.saturating_add(steps) {
            let start = Instant::now();
            step()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.drain(..warm_up.min(times.len()));
        times.sort_by(f64::total_cmp);
        Ok(LossProbed { tensors, times, unused: given.unused })
    }

    fn make(&self, registry: &Registry) -> Result<Held<dyn Loss>> {
        registry.loss(self.name, self.settings).map_err(|e| Error::Usage(format!("loss `{}`: {e}", self.name)))
    }

    fn read(&self, loss: &dyn Loss) -> Result<Given> {
        let wrong = |message: String| Error::format(self.input, message);
        let tensors = read_tensors(self.input)?;
        guard(|| Ok(Given::check(tensors, loss, self.seed)))
            .map_err(|source| Error::Torch { during: "reading the batch", source })?
            .map_err(wrong)
    }
}

/// The validated batch from the file.
struct Given {
    embeddings: Tensor,
    labels: Tensor,
    ids: Tensor,
    weights: Option<Tensor>,
    declared: Vec<(TensorSpec, Tensor)>,
    shape: Shape,
    unused: Vec<String>,
}

impl Given {
    fn check(mut file: BTreeMap<String, Tensor>, loss: &dyn Loss, seed: u64) -> Result<Self, String> {
        let embeddings = file.remove("embeddings").ok_or("has no tensor `embeddings`")?;
        let kind = embeddings.kind();
        let shape = embeddings.size();
        let (&[rows, dimensions], Kind::Float | Kind::Double) = (&shape[..], kind) else {
            return Err(format!("`embeddings` must be [B, D] in f32 or f64, but is {shape:?} in {kind:?}"));
        };
        if rows == 0 || dimensions == 0 {
            return Err(format!("`embeddings` is empty: {shape:?}"));
        }
        let mut integers = |name: &str| match file.remove(name) {
            Some(t) if t.size() == [rows] && t.kind() == Kind::Int64 && t.min().int64_value(&[]) >= 0 => Ok(Some(t)),
            Some(t) => {
                let (size, kind) = (t.size(), t.kind());
                Err(format!("`{name}` must be [{rows}] in i64, not negative, but is {size:?} in {kind:?}"))
            }
            None => Ok(None),
        };
        let labels = integers("labels")?.ok_or("has no tensor `labels`")?;
        let ids = integers("ids")?.unwrap_or_else(|| Tensor::arange(rows, (Kind::Int64, Device::Cpu)));
        let weights = match file.remove("weights") {
            Some(w) if w.size() == [rows] && w.is_floating_point() => Some(w.to_kind(kind)),
            Some(w) => return Err(format!("`weights` must be [{rows}] floats, not {:?} in {:?}", w.size(), w.kind())),
            None => None,
        };
        if let Some(w) = &weights {
            let inside = w.ge(0.0).logical_and(&w.le(1.0)).all();
            if inside.int64_value(&[]) == 0 {
                return Err("`weights` must be between 0 and 1".to_string());
            }
        }
        let shape = Shape {
            classes: labels.max().int64_value(&[]).saturating_add(1),
            samples: ids.max().int64_value(&[]).saturating_add(1),
            embedding: dimensions,
        };
        let (declared, shape) = declare(loss, shape, &mut file, kind, seed)?;
        let unused = file.into_keys().collect();
        Ok(Self { embeddings, labels, ids, weights, declared, shape, unused })
    }

    /// What the loss must not change.
    fn lent(&self) -> Vec<(&'static str, &Tensor)> {
        let mut lent = vec![("embeddings", &self.embeddings), ("labels", &self.labels), ("ids", &self.ids)];
        lent.extend(self.weights.as_ref().map(|weights| ("weights", weights)));
        lent
    }

    /// The loss and its gradients, from new leaves so that gradients do not accumulate between steps.
    fn evaluate(&self, loss: &dyn Loss) -> curricle_sdk::Result<Vec<(String, Tensor)>> {
        let embeddings = self.embeddings.detach().set_requires_grad(true);
        let mut tensors = Tensors::default();
        for (spec, tensor) in &self.declared {
            tensors.insert(spec.name.as_ref(), tensor.detach().set_requires_grad(spec.trainable));
        }
        let (labels, ids, weights) = (&self.labels, &self.ids, self.weights.as_ref());
        let info = StepInfo { classes: self.shape.classes, samples: self.shape.samples, ..StepInfo::default() };
        let batch = Batch { weights, info, ..Batch::new(&embeddings, labels, ids, &tensors) };
        let value = loss.forward(&batch, &mut Log::disabled())?;
        value.f_backward()?;
        let kind = embeddings.kind();
        let grad = |leaf: &Tensor| match leaf.grad() {
            grad if grad.defined() => grad.contiguous(),
            _ => leaf.zeros_like(),
        };
        let mut results = vec![
            ("loss".to_string(), value.detach().to_kind(kind).contiguous()),
            ("grad".to_string(), grad(&embeddings)),
        ];
        for (spec, _) in self.declared.iter().filter(|(spec, _)| spec.trainable) {
            results.push((format!("grad.{}", spec.name), grad(tensors.get(&spec.name))));
        }
        Ok(results)
    }
}

/// The tensors a loss declares, from the file or initialised from the seed, and the sizes they depend on.
///
/// The number of classes is that of the labels, or more if a declared tensor in the file has more.
fn declare(
    loss: &dyn Loss,
    shape: Shape,
    file: &mut BTreeMap<String, Tensor>,
    kind: Kind,
    seed: u64,
) -> Result<(Vec<(TensorSpec, Tensor)>, Shape), String> {
    let fits = |classes: i64| {
        let specs = loss.tensors(&Shape { classes, ..shape });
        specs.iter().all(|s| file.get(s.name.as_ref()).is_none_or(|t| t.size() == s.shape))
    };
    let first_sizes = file.values().filter_map(|t| t.size().first().copied());
    let candidates = std::iter::once(shape.classes).chain(first_sizes.filter(|n| *n > shape.classes));
    let classes = candidates.into_iter().find(|c| fits(*c)).unwrap_or(shape.classes);
    let shape = Shape { classes, ..shape };
    let initial = Declared::of_loss(loss, &shape, seed, Device::Cpu).map_err(|e| e.to_string())?;
    let mut declared = Vec::new();
    for spec in initial.specs {
        let is_float = matches!(spec.kind, Kind::Float | Kind::Double);
        let kind = if is_float { kind } else { spec.kind };
        let tensor = match file.remove(spec.name.as_ref()) {
            Some(t) if t.size() == spec.shape && t.is_floating_point() == is_float => t.to_kind(kind),
            Some(t) => {
                let (size, wanted, what) = (t.size(), &spec.shape, if is_float { "floats" } else { "whole numbers" });
                return Err(format!("`{}` must be {wanted:?} {what}, not {size:?} in {:?}", spec.name, t.kind()));
            }
            None => initial.tensors.get(&spec.name).detach().to_kind(kind),
        };
        declared.push((spec, tensor));
    }
    Ok((declared, shape))
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
