//! Tests of `probe loss` with a loss that can be checked by hand.

use super::*;
use curricle_sdk::Init;
use curricle_sdk::register_loss;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;

/// `scale Σ_i w_i <x_i, t_(y_i)>`, whose gradients are obvious.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Linear {
    scale: f64,
}

impl Default for Linear {
    fn default() -> Self {
        Self { scale: 1.0 }
    }
}

impl Loss for Linear {
    fn forward(&self, batch: &Batch, _log: &mut Log) -> curricle_sdk::Result<Tensor> {
        let targets = batch.tensors.get("targets").index_select(0, batch.labels);
        let rows = (batch.embeddings * targets).sum_dim_intlist(1, false, None);
        Ok((rows * batch.weights_or_ones()).sum(None) * self.scale)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        vec![TensorSpec::trainable("targets", [shape.classes, shape.embedding], Init::Normal { std: 0.5 })]
    }
}

register_loss!("probe_test_linear", Linear, "for tests");

fn batch() -> Vec<(&'static str, Tensor)> {
    vec![
        ("embeddings", Tensor::from_slice2(&[[1.0f64, 0.0], [0.0, 1.0], [0.6, 0.8]])),
        ("labels", Tensor::from_slice(&[0i64, 1, 1])),
        ("weights", Tensor::from_slice(&[1.0f64, 0.5, 0.25])),
        ("targets", Tensor::from_slice2(&[[1.0f64, 2.0], [3.0, 4.0], [5.0, 6.0]])),
    ]
}

fn write(folder: &tempfile::TempDir, tensors: &[(&str, Tensor)]) -> PathBuf {
    let path = folder.path().join("in.safetensors");
    Tensor::write_safetensors(tensors, &path).unwrap();
    path
}

fn probe(tensors: &[(&str, Tensor)], settings: &Value, steps: usize) -> crate::Result<LossProbed> {
    let folder = tempfile::tempdir().unwrap();
    let input = write(&folder, tensors);
    let probe = LossProbe { name: "probe_test_linear", settings, input: &input, seed: 1 };
    probe.run(&Registry::built_in(), steps)
}

fn numbers(probed: &LossProbed, name: &str) -> Vec<f64> {
    let found = probed.tensors.iter().find(|(n, _)| n == name).unwrap();
    Vec::<f64>::try_from(found.1.flatten(0, -1).to_kind(Kind::Double)).unwrap()
}

#[test]
fn gradients_do_not_accumulate_over_timed_steps() {
    // Timing repeats the step; gradients must not accumulate.
    let probed = probe(&batch(), &json!({"scale": 2}), 3).unwrap();
    assert_eq!(probed.times.len(), 3);
    assert_eq!(numbers(&probed, "loss"), [2.0 * (1.0 + 0.5 * 4.0 + 0.25 * (1.8 + 3.2))]);
    assert_eq!(numbers(&probed, "grad"), [2.0, 4.0, 3.0, 4.0, 1.5, 2.0]);
    assert_eq!(numbers(&probed, "grad.targets"), [2.0, 0.0, 0.3, 1.4, 0.0, 0.0]);
}

#[test]
fn results_keep_the_precision_and_are_written_to_a_file() {
    let mut single = batch();
    single[0].1 = single[0].1.to_kind(Kind::Float);
    let probed = probe(&single, &json!({}), 0).unwrap();
    assert!(probed.tensors.iter().all(|(_, t)| t.kind() == Kind::Float));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.safetensors");
    probed.write(&path).unwrap();
    assert_eq!(Tensor::read_safetensors(&path).unwrap().len(), 3);
}

#[test]
fn missing_tensors_are_initialised_from_the_seed() {
    let without = &batch()[..2];
    let first = probe(without, &json!({}), 0).unwrap();
    assert_eq!(numbers(&first, "loss"), numbers(&probe(without, &json!({}), 0).unwrap(), "loss"));
    assert!(numbers(&first, "grad").iter().all(|g| *g != 0.0 && g.abs() < 3.0));
}

#[test]
fn invalid_input_is_refused_with_the_tensor() {
    let message = |tensors: &[(&str, Tensor)], settings: Value| probe(tensors, &settings, 0).unwrap_err().to_string();
    assert!(message(&batch()[..1], json!({})).ends_with("has no tensor `labels`"));
    assert!(message(&batch()[1..], json!({})).ends_with("has no tensor `embeddings`"));
    let mut heavy = batch();
    heavy[2].1 = &heavy[2].1 * 4.0;
    assert!(message(&heavy, json!({})).ends_with("`weights` must be between 0 and 1"));
    let mut narrow = batch();
    narrow[3].1 = narrow[3].1.narrow(1, 0, 1).contiguous();
    assert!(message(&narrow, json!({})).ends_with("`targets` must be [2, 2] floats, not [3, 1] in Double"));
}

#[test]
fn unused_tensors_are_reported() {
    let mut more = batch();
    more.push(("proxies", Tensor::from_slice(&[1.0])));
    assert_eq!(probe(&more, &json!({}), 0).unwrap().unused, ["proxies"]);
    assert_eq!(probe(&batch(), &json!({}), 0).unwrap().unused, [""; 0]);
}

#[test]
fn an_unknown_loss_lists_the_available_ones() {
    let settings = json!({});
    let probe = LossProbe { name: "nothing", settings: &settings, input: Path::new("in"), seed: 1 };
    let error = probe.run(&Registry::built_in(), 0).unwrap_err();
    assert_eq!(error.exit(), curricle_record::Exit::Usage);
    assert!(error.to_string().contains("probe_test_linear"), "{error}");
}
