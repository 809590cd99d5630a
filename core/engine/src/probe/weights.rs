//! Runs one weight update on embeddings from a file.

use super::{read_tensors, write_tensors};
use crate::call::call;
use crate::last_words::running;
use crate::registry::Registry;
use crate::train::declared::Declared;
use crate::{Error, Result};
use curricle_sdk::{ComponentKind, LossInfo, Round, Shape, WeightScheme, WeightUpdate, guard, maw_sdaw};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// The weight update to run.
#[derive(Debug, Clone, Copy)]
pub struct WeightsProbe<'a> {
    /// The scheme's name.
    pub name: &'a str,
    /// Its settings.
    pub settings: &'a Value,
    /// A safetensors file with `embeddings [N,D]` (used as given, not normalised), `labels [N]`
    /// (i64) and optionally the initial `weights [N]` (default 1).
    pub input: &'a Path,
    /// The output file.
    pub output: &'a Path,
    /// The age λ of this update; by default that of the schedule's first round.
    pub lambda: Option<f64>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Runs one update and writes, in f64: `weights [N]`, `maw`, `sdaw`, and if the scheme has them
/// `xi_pos [N]`, `xi_neg [N]`, `objective [2]` (before, after) and `gradient [N]` (∂L/∂w at the
/// result). Returns the scalars that the scheme would log.
pub fn probe(what: &WeightsProbe, registry: &Registry) -> Result<Vec<(String, f64)>> {
    let component = |source| Error::Component { kind: ComponentKind::Weights, name: what.name.to_string(), source };
    if what.lambda.is_some_and(|lambda| !lambda.is_finite() || lambda < 0.0) {
        return Err(Error::Usage("`--lambda` must be a finite number of at least 0".into()));
    }
    let scheme = registry.weights(what.name, what.settings).map_err(component)?;
    let input = Input::read(what.input)?;
    let lent = [("embeddings", &input.embeddings)];
    let running = running(ComponentKind::Weights, what.name);
    let update = call(running, &lent, || update(&*scheme, what, &input)).map_err(component)?;
    write(what.output, &input, &update)?;
    Ok(update.scalars)
}

fn update(scheme: &dyn WeightScheme, what: &WeightsProbe, input: &Input) -> curricle_sdk::Result<WeightUpdate> {
    let shape = Shape {
        classes: input.labels.iter().max().map_or(0, |last| last.saturating_add(1)),
        samples: input.labels.len() as i64,
        embedding: input.embeddings.size()[1],
    };
    let declared = Declared::of_scheme(scheme, &shape, what.seed, Device::Cpu)?;
    let loss = LossInfo { name: "", settings: &Value::Null };
    scheme.update(&Round {
        seed: what.seed,
        embeddings: scheme.needs_embeddings().then_some(&input.embeddings),
        age: what.lambda,
        ..Round::new(&input.labels, &input.weights, &declared.tensors, loss)
    })
}

/// The validated contents of an input file.
struct Input {
    embeddings: Tensor,
    labels: Vec<i64>,
    weights: Vec<f64>,
}

impl Input {
    fn read(path: &Path) -> Result<Self> {
        let wrong = |message: String| Error::format(path, message);
        let all = read_tensors(path)?;
        let need = |name: &str| {
            let found = all.keys().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ");
            all.get(name).ok_or_else(|| wrong(format!("has no tensor `{name}`; it has: {found}")))
        };
        let embeddings = need("embeddings")?;
        if embeddings.dim() != 2 || !embeddings.is_floating_point() {
            let (kind, size) = (embeddings.kind(), embeddings.size());
            return Err(wrong(format!("`embeddings` must be floating point [N, D], but is {kind:?} {size:?}")));
        }
        let samples = embeddings.size()[0];
        let fits = |name: &str, tensor: &Tensor| {
            let size = tensor.size();
            if size == [samples] {
                Ok(())
            } else {
                Err(wrong(format!("`{name}` must be [{samples}], one per embedding, but is {size:?}")))
            }
        };
        let labels = need("labels")?;
        fits("labels", labels)?;
        if labels.kind() != Kind::Int64 {
            return Err(wrong(format!("`labels` must be i64, but is {:?}", labels.kind())));
        }
        let labels: Vec<i64> = Vec::try_from(labels).map_err(|e: tch::TchError| wrong(e.to_string()))?;
        if labels.iter().any(|&label| label < 0) {
            return Err(wrong("`labels` must not be negative".into()));
        }
        let weights = match all.get("weights") {
            None => vec![1.0; labels.len()],
            Some(weights) => {
                fits("weights", weights)?;
                guard(|| Ok(Vec::<f64>::try_from(weights.to_kind(Kind::Double))?)).map_err(|e| wrong(e.to_string()))?
            }
        };
        if !weights.iter().all(|w| (0.0..=1.0).contains(w)) {
            return Err(wrong("`weights` must be between 0 and 1".into()));
        }
        Ok(Self { embeddings: embeddings.shallow_clone(), labels, weights })
    }
}

fn write(path: &Path, input: &Input, update: &WeightUpdate) -> Result<()> {
    let scalar = |name: &str| update.scalars.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
    let (maw, sdaw) = averages(&input.labels, &update.weights);
    let mut out = vec![
        ("weights", Tensor::from_slice(&update.weights)),
        ("maw", Tensor::from(maw)),
        ("sdaw", Tensor::from(sdaw)),
    ];
    if let (Some(before), Some(after)) = (scalar("objective_before"), scalar("objective")) {
        out.push(("objective", Tensor::from_slice(&[before, after])));
    }
    for name in ["xi_pos", "xi_neg", "gradient"] {
        if let Some((_, column)) = update.columns.iter().find(|(n, _)| n == name) {
            out.push((name, Tensor::from_slice(column)));
        }
    }
    let out: Vec<_> = out.into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect();
    write_tensors(path, &out)
}

/// Mean (MAW) and population standard deviation (SDAW) of the classes' average weights.
fn averages(labels: &[i64], weights: &[f64]) -> (f64, f64) {
    let mut classes: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for (&label, &weight) in labels.iter().zip(weights) {
        let class = classes.entry(label).or_default();
        class.0 += weight;
        class.1 += 1.0;
    }
    maw_sdaw(&classes.values().map(|(sum, size)| sum / size).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::prelude::{Deserialize, JsonSchema, Serialize, register_weights};
    use serde_json::json;

    /// Halves every weight, so that input and output differ.
    #[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Halve {}

    impl WeightScheme for Halve {
        fn update(&self, round: &Round) -> curricle_sdk::Result<WeightUpdate> {
            let weights = round.weights.iter().map(|w| w / 2.0).collect();
            let scalars = vec![
                ("objective_before".into(), round.age.unwrap_or(0.0)),
                ("objective".into(), round.embeddings.unwrap().double_value(&[0, 0])),
            ];
            Ok(WeightUpdate { weights, scalars, columns: vec![("xi_pos".into(), vec![3.0, 4.0, 5.0])] })
        }
    }

    register_weights!("test_halve", Halve, "for tests");

    fn run(tensors: &[(&str, Tensor)], lambda: Option<f64>) -> Result<BTreeMap<String, Tensor>> {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in.safetensors"), folder.path().join("out.safetensors"));
        Tensor::write_safetensors(tensors, &input).unwrap();
        let settings = json!({});
        let what =
            WeightsProbe { name: "test_halve", settings: &settings, input: &input, output: &output, lambda, seed: 1 };
        probe(&what, &Registry::built_in())?;
        Ok(Tensor::read_safetensors(&output).unwrap().into_iter().collect())
    }

    fn embeddings() -> Tensor {
        Tensor::from_slice(&[0.25, 0.0, 0.0, 1.0, 1.0, 0.0]).view([3, 2])
    }

    #[test]
    fn weights_and_reported_values_are_written() {
        let labels = Tensor::from_slice(&[0i64, 0, 4]);
        let start = Tensor::from_slice(&[1.0f32, 0.5, 0.25]);
        let input = [("embeddings", embeddings()), ("labels", labels), ("weights", start)];
        let out = run(&input, Some(7.0)).unwrap();
        let values = |name: &str| Vec::<f64>::try_from(&out[name]).unwrap();
        assert_eq!(values("weights"), [0.5, 0.25, 0.125]);
        assert_eq!(values("objective"), [7.0, 0.25]);
        assert_eq!(values("xi_pos"), [3.0, 4.0, 5.0]);
        assert_eq!((out["maw"].double_value(&[]), out["sdaw"].double_value(&[])), (0.25, 0.125));
        assert!(!out.contains_key("xi_neg"));
    }

    #[test]
    fn invalid_files_are_refused_with_the_reason() {
        let message = |tensors: &[(&str, Tensor)]| run(tensors, None).unwrap_err().to_string();
        let labels = || Tensor::from_slice(&[0i64, 0, 1]);
        assert!(message(&[("embeddings", embeddings())]).contains("has no tensor `labels`; it has: `embeddings`"));
        assert!(message(&[("embeddings", labels()), ("labels", labels())]).contains("[N, D]"));
        let short = Tensor::from_slice(&[0i64, 1]);
        assert!(message(&[("embeddings", embeddings()), ("labels", short)]).contains("`labels` must be [3]"));
        let float = Tensor::from_slice(&[0.0, 1.0, 1.0]);
        assert!(message(&[("embeddings", embeddings()), ("labels", float)]).contains("must be i64"));
        let heavy = Tensor::from_slice(&[0.0, 1.0, 1.5]);
        let input = [("embeddings", embeddings()), ("labels", labels()), ("weights", heavy)];
        assert!(message(&input).contains("between 0 and 1"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let settings = json!({});
        let (input, output) = (Path::new("no/such.safetensors"), Path::new("out.safetensors"));
        let what = WeightsProbe { name: "test_halve", settings: &settings, input, output, lambda: None, seed: 1 };
        let message = probe(&what, &Registry::built_in()).unwrap_err().to_string();
        assert!(message.starts_with("cannot read `no/such.safetensors`"), "{message}");
    }
}
