//! Weights per step, rounds before training and the moving average of the network, also across an interruption.

use super::{FAULT, Workspace, results};
use curricle_engine::Error;
use curricle_engine::run::SavedModel;
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use tch::{Device, Tensor};

/// A column of `samples.csv`.
fn column(samples: &str, name: &str) -> Vec<f64> {
    let mut lines = samples.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let at = lines.next().unwrap().iter().position(|other| *other == name).expect(name);
    lines.map(|line| line[at].parse().unwrap()).collect()
}

/// All numbers of `metrics.jsonl` with this name, by epoch.
fn scalars(metrics: &str, name: &str) -> Vec<(u64, f64)> {
    let lines = metrics.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines
        .filter_map(|line| (line["tag"] == name).then(|| Some((line["epoch"].as_u64()?, line["value"].as_f64()?)))?)
        .collect()
}

#[test]
fn weights_of_steps_reach_samples_metrics_and_the_result() {
    let workspace = Workspace::new();
    let outcome = workspace.run(&["weights={name='by_step'}"]).unwrap();
    let (_, _, samples) = results(&outcome);
    let weights = column(&samples, "weight");
    assert_eq!(weights.len(), 24);
    for (sample, weight) in weights.iter().enumerate() {
        assert_eq!(*weight, if sample % 4 == 0 { 0.5 } else { 1.0 }, "sample {sample} after two epochs");
    }
    assert_eq!(column(&samples, "count"), [2.0; 24]);
    assert!(column(&samples, "loss_distance").iter().all(|distance| distance.is_finite()));
    let auroc = outcome.result.weighting.iter().find(|(name, _)| name == "auroc").unwrap().1;
    let metrics = fs_err::read_to_string(outcome.folder.join("metrics.jsonl")).unwrap();
    let logged = scalars(&metrics, "weights/auroc");
    assert_eq!(logged.iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(), [0, 1, 2], "{metrics}");
    assert_eq!(logged[0].1, 0.5, "all weights are 1 before training");
    assert_eq!(logged[2].1, auroc);
}

#[test]
fn a_run_with_a_memory_and_a_moving_average_resumes_exactly() {
    for weights in ["by_step", "teacher"] {
        let weights = format!("weights={{name='{weights}'}}");
        let sets = |at: &'static str| [&*weights, "train.ema=0.9", "eval.network=ema", "loss.mistake=stop", at];
        let workspace = Workspace::new();
        FAULT.store(false, SeqCst);
        let whole = results(&workspace.run(&sets("loss.at=4")).unwrap());
        drop(workspace);
        let workspace = Workspace::new();
        let stopped = workspace.run(&sets("loss.at=4")).map(|_| ()).unwrap_err();
        assert!(matches!(stopped, Error::Interrupted(_)), "{stopped}");
        FAULT.store(false, SeqCst);
        assert_eq!(results(&workspace.run(&sets("loss.at=4")).unwrap()), whole, "{weights}");
    }
}

#[test]
fn the_saved_model_is_the_network_that_was_evaluated() {
    let workspace = Workspace::new();
    let average = workspace.run(&["train.ema=0.9", "eval.network=ema"]).unwrap();
    let tensors: HashMap<_, _> =
        Tensor::read_safetensors(average.folder.join("model.safetensors")).unwrap().into_iter().collect();
    let saved = SavedModel::open(&average.folder).unwrap().build(Device::Cpu).unwrap();
    for named in saved.tensors() {
        let name = &named.name;
        assert_eq!(named.tensor, tensors[&format!("ema.{name}")], "{name}");
    }
    assert_ne!(tensors["ema.embedding.weight"], tensors["model.embedding.weight"]);
    let trained = workspace.run(&["train.ema=0.9"]).unwrap();
    assert_ne!(trained.result.trained.recall, Default::default());
    let saved = SavedModel::open(&trained.folder).unwrap().build(Device::Cpu).unwrap();
    let weight = |model: &curricle_engine::backbone::Model| {
        model.tensors().into_iter().find(|named| named.name == "embedding.weight").unwrap().tensor
    };
    assert_eq!(weight(&saved), tensors["model.embedding.weight"], "the average does not change training");

    // An edited model is noticed.
    let path = trained.folder.join("model.safetensors");
    let mut bytes = fs_err::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs_err::write(&path, bytes).unwrap();
    let message = SavedModel::open(&trained.folder).unwrap_err().to_string();
    assert!(message.contains("it was changed after training"), "{message}");
}
