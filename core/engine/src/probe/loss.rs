//! One loss on one batch from a file.

use crate::registry::Registry;
use crate::{Error, Result};
use curricle_sdk::rand::RngExt;
use curricle_sdk::{Batch, Init, Kind as ComponentKind, Log, Loss, Shape, TensorSpec, Tensors, guard, rng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use tch::{Device, Kind, Tensor};

/// What to evaluate.
#[derive(Debug)]
pub struct LossProbe<'a> {
    /// The loss's name.
    pub name: &'a str,
    /// Its settings, as a JSON object.
    pub settings: &'a Value,
    /// Safetensors file with `embeddings [B,D]` (f32 or f64), `labels [B]` (i64), and optionally
    /// `weights [B]`, `ids [B]` (i64) and the tensors the loss declares.
    pub input: &'a Path,
    /// Decides the start of declared tensors that are not in the file, and what the loss draws.
    pub seed: u64,
}

/// What came out.
#[derive(Debug)]
pub struct LossProbed {
    /// `loss`, `grad`, and `grad.<tensor>` for each declared trainable tensor, in the precision
    /// of the embeddings.
    pub tensors: Vec<(String, Tensor)>,
    /// Times of forward and backward in milliseconds, sorted.
    pub times: Vec<f64>,
}

impl LossProbed {
    /// Writes the tensors to a safetensors file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(Error::file("write", path))?;
        Tensor::write_safetensors(&self.tensors, file.path())
            .map_err(|e| Error::Failed(format!("cannot write `{}`: {e}", path.display())))?;
        file.persist(path).map_err(|e| Error::file("write", path)(e.error))?;
        Ok(())
    }
}

impl LossProbe<'_> {
    /// Evaluates the loss and its derivatives, then `steps` times more for the clock.
    pub fn run(&self, registry: &Registry, steps: usize) -> Result<LossProbed> {
        let loss = self.make(registry)?;
        let given = self.read(&*loss)?;
        let failed = |source| Error::Component { kind: ComponentKind::Loss, name: self.name.to_string(), source };
        let step = |index: u64| {
            tch::manual_seed(rng::seed_for(self.seed, "probe", 0, index));
            guard(|| given.evaluate(&*loss)).map_err(failed)
        };
        let tensors = step(0)?;
        let warm_up = steps.div_ceil(5);
        let mut times = Vec::with_capacity(steps);
        for index in 0..warm_up + steps {
            let start = Instant::now();
            step(index as u64)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.drain(..warm_up.min(times.len()));
        times.sort_by(f64::total_cmp);
        Ok(LossProbed { tensors, times })
    }

    fn make(&self, registry: &Registry) -> Result<Box<dyn Loss>> {
        if let Some(entry) = registry.find(ComponentKind::Loss, self.name) {
            refuse_unknown(self.name, &entry.component.factory.schema(), self.settings)?;
        }
        registry.loss(self.name, self.settings).map_err(|e| Error::Usage(format!("loss `{}`: {e}", self.name)))
    }

    fn read(&self, loss: &dyn Loss) -> Result<Given> {
        let wrong = |message: String| Error::Format { path: self.input.to_path_buf(), message };
        let bytes = fs_err::read(self.input).map_err(Error::file("read", self.input))?;
        let file = safetensors::SafeTensors::deserialize(&bytes)
            .map_err(|e| wrong(format!("is not a safetensors file: {e}")))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let tensor = Tensor::try_from(view).map_err(|e| wrong(format!("tensor `{name}`: {e}")))?;
            tensors.insert(name, tensor);
        }
        guard(|| Ok(Given::check(tensors, loss, self.seed)))
            .map_err(|source| Error::Torch { during: "reading the batch", source })?
            .map_err(wrong)
    }
}

/// The batch of the file, complete and of the right shapes.
struct Given {
    embeddings: Tensor,
    labels: Tensor,
    ids: Tensor,
    weights: Option<Tensor>,
    declared: Vec<(TensorSpec, Tensor)>,
}

impl Given {
    fn check(mut file: BTreeMap<String, Tensor>, loss: &dyn Loss, seed: u64) -> Result<Self, String> {
        let embeddings = file.remove("embeddings").ok_or("there is no tensor `embeddings`")?;
        let kind = embeddings.kind();
        let shape = embeddings.size();
        let (&[rows, dimensions], Kind::Float | Kind::Double) = (&shape[..], kind) else {
            return Err(format!("`embeddings` must be [B, D] in f32 or f64, is {shape:?} in {kind:?}"));
        };
        if rows == 0 || dimensions == 0 {
            return Err(format!("`embeddings` is empty: {shape:?}"));
        }
        let mut integers = |name: &str| match file.remove(name) {
            Some(t) if t.size() == [rows] && t.kind() == Kind::Int64 && t.min().int64_value(&[]) >= 0 => Ok(Some(t)),
            Some(t) => {
                let (size, kind) = (t.size(), t.kind());
                Err(format!("`{name}` must be [{rows}] in i64, not negative; is {size:?} in {kind:?}"))
            }
            None => Ok(None),
        };
        let labels = integers("labels")?.ok_or("there is no tensor `labels`")?;
        let ids = integers("ids")?.unwrap_or_else(|| Tensor::arange(rows, (Kind::Int64, Device::Cpu)));
        let weights = match file.remove("weights") {
            Some(w) if w.size() == [rows] && w.is_floating_point() => Some(w.to_kind(kind)),
            Some(w) => return Err(format!("`weights` must be [{rows}] floats, is {:?} in {:?}", w.size(), w.kind())),
            None => None,
        };
        if let Some(w) = &weights {
            let inside = w.ge(0.0).logical_and(&w.le(1.0)).all();
            if inside.int64_value(&[]) == 0 {
                return Err("`weights` must lie between 0 and 1".to_string());
            }
        }
        let shape = Shape {
            classes: labels.max().int64_value(&[]) + 1,
            samples: ids.max().int64_value(&[]) + 1,
            embedding: dimensions,
        };
        let declared = declare(loss, shape, &mut file, kind, seed)?;
        if let Some(name) = file.keys().next() {
            return Err(format!("the loss does not know what to do with tensor `{name}`"));
        }
        Ok(Self { embeddings, labels, ids, weights, declared })
    }

    /// Loss and derivatives, from fresh leaves so that nothing adds up from step to step.
    fn evaluate(&self, loss: &dyn Loss) -> curricle_sdk::Result<Vec<(String, Tensor)>> {
        let embeddings = self.embeddings.detach().set_requires_grad(true);
        let mut tensors = Tensors::default();
        for (spec, tensor) in &self.declared {
            tensors.insert(spec.name, tensor.detach().set_requires_grad(spec.trainable));
        }
        let (labels, ids, weights) = (&self.labels, &self.ids, self.weights.as_ref());
        let batch = Batch { embeddings: &embeddings, labels, ids, weights, tensors: &tensors };
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
            results.push((format!("grad.{}", spec.name), grad(tensors.get(spec.name))));
        }
        Ok(results)
    }
}

/// The tensors a loss declares, from the file or from the seed.
///
/// The number of classes is that of the labels, or more if a declared tensor in the file is made
/// for more.
fn declare(
    loss: &dyn Loss,
    shape: Shape,
    file: &mut BTreeMap<String, Tensor>,
    kind: Kind,
    seed: u64,
) -> Result<Vec<(TensorSpec, Tensor)>, String> {
    let fits = |classes: i64| {
        let specs = loss.tensors(&Shape { classes, ..shape });
        specs.iter().all(|s| file.get(s.name).is_none_or(|t| t.size() == s.shape))
    };
    let first_sizes = file.values().filter_map(|t| t.size().first().copied());
    let candidates = std::iter::once(shape.classes).chain(first_sizes.filter(|n| *n > shape.classes));
    let classes = candidates.into_iter().find(|c| fits(*c)).unwrap_or(shape.classes);
    let mut declared = Vec::new();
    for spec in loss.tensors(&Shape { classes, ..shape }) {
        let tensor = match file.remove(spec.name) {
            Some(t) if t.size() == spec.shape && t.is_floating_point() => t.to_kind(kind),
            Some(t) => {
                let (size, wanted) = (t.size(), &spec.shape);
                return Err(format!("`{}` must be {wanted:?} floats, is {size:?} in {:?}", spec.name, t.kind()));
            }
            None => initial(&spec, kind, seed),
        };
        declared.push((spec, tensor));
    }
    Ok(declared)
}

/// A declared tensor as it starts.
fn initial(spec: &TensorSpec, kind: Kind, seed: u64) -> Tensor {
    match spec.init {
        Init::Constant(value) => Tensor::full(&spec.shape, value, (kind, Device::Cpu)),
        Init::Normal { std } => {
            let mut random = rng::stream(seed, &format!("probe tensor {}", spec.name), 0, 0);
            let count: i64 = spec.shape.iter().product();
            let normal: Vec<f64> = (0..count)
                .map(|_| {
                    // Box and Muller; 1 - u is never 0.
                    let (u, v): (f64, f64) = (random.random(), random.random());
                    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
                })
                .collect();
            (Tensor::from_slice(&normal) * std).view(&spec.shape[..]).to_kind(kind)
        }
    }
}

/// Refuses settings the schema does not have, with the nearest one it has.
fn refuse_unknown(name: &str, schema: &Value, settings: &Value) -> Result<()> {
    let (Some(known), Some(given)) = (schema["properties"].as_object(), settings.as_object()) else { return Ok(()) };
    let Some(unknown) = given.keys().find(|key| !known.contains_key(*key)) else { return Ok(()) };
    let near = known.keys().map(|k| (strsim::damerau_levenshtein(k, unknown), k)).min();
    let hint = match near {
        Some((distance, key)) if distance <= 2.max(unknown.len() / 3) => format!("; did you mean `{key}`?"),
        _ => String::new(),
    };
    let all: Vec<String> = known.keys().map(|k| format!("`{k}`")).collect();
    let all = if all.is_empty() { "it has none".to_string() } else { format!("it has {}", all.join(", ")) };
    Err(Error::Usage(format!("loss `{name}` has no setting `{unknown}`{hint} ({all})")))
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
