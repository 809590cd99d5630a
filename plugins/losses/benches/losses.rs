//! Median time of forward and backward for each loss at batch 64 (16 classes × 4), 512 dimensions.
//!
//! `cargo bench -p curricle-losses` prints one JSON line per loss, in the form of
//! `benches/peer_losses.py`. With `-- --peer PYTHON` it runs that script with the given Python in
//! turns with its own measurements and prints the ratios instead; see the script for what it
//! needs.

use curricle_sdk::{Batch, Init, Kind, Log, Shape, Tensors, registered};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;
use tch::{Device, Tensor};

// Linking the crate is what registers its losses.
use curricle_losses as _;

const CLASSES: i64 = 100;
const DIMENSIONS: i64 = 512;
const ROUNDS: usize = 3;

fn main() {
    tch::set_num_threads(2);
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|a| a == "--peer").and_then(|i| arguments.get(i + 1)) {
        Some(python) => compare(python),
        None => ours().iter().for_each(|(name, ms)| println!("{}", json!({"name": name, "median_ms": ms}))),
    }
}

/// Runs both sides in turns, so that a busy machine slows down both.
fn compare(python: &str) {
    let mut best: BTreeMap<String, (f64, Option<f64>)> = BTreeMap::new();
    let mut note = |name: &str, ours: Option<f64>, theirs: Option<f64>| {
        let entry = best.entry(name.to_string()).or_insert((f64::INFINITY, None));
        entry.0 = entry.0.min(ours.unwrap_or(f64::INFINITY));
        entry.1 = match (entry.1, theirs) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    };
    for _ in 0..ROUNDS {
        ours().iter().for_each(|(name, ms)| note(name, Some(*ms), None));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peer_losses.py");
        let output = Command::new(python).arg(script).arg("2").output().expect("the peer's Python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let line: Value = serde_json::from_str(line).expect("the peer prints JSON lines");
            note(line["name"].as_str().expect("a name"), None, line["median_ms"].as_f64());
        }
    }
    println!("best median of {ROUNDS} rounds, ms");
    println!("{:<14}{:>10}{:>10}{:>8}", "loss", "curricle", "peer", "ratio");
    for (name, (ours, theirs)) in best {
        match theirs {
            Some(theirs) => println!("{name:<14}{ours:>10.3}{theirs:>10.3}{:>8.1}", theirs / ours),
            None => println!("{name:<14}{ours:>10.3}{:>10}{:>8}", "-", "-"),
        }
    }
}

fn ours() -> Vec<(String, f64)> {
    tch::manual_seed(0);
    let options = (tch::Kind::Float, Device::Cpu);
    let labels = Tensor::arange(64, (tch::Kind::Int64, Device::Cpu)).floor_divide_scalar(4);
    let ids = Tensor::arange(64, (tch::Kind::Int64, Device::Cpu));
    let raw = Tensor::randn([64, DIMENSIONS], options);
    let mut embeddings = (&raw / raw.norm_scalaropt_dim(2.0, 1, true)).set_requires_grad(true);
    let shape = Shape { classes: CLASSES, samples: 64, embedding: DIMENSIONS };
    let losses = registered().into_iter().filter(|c| c.kind == Kind::Loss);
    losses
        .map(|component| {
            let loss = component.factory.loss(&json!({})).expect("defaults are valid");
            let mut tensors = Tensors::default();
            for spec in loss.tensors(&shape) {
                let tensor = match spec.init {
                    Init::Constant(value) => Tensor::full(&spec.shape, value, options),
                    Init::Normal { std } => Tensor::randn(&spec.shape, options) * std,
                };
                tensors.insert(spec.name, tensor.set_requires_grad(spec.trainable));
            }
            let mut times: Vec<f64> = (0..120)
                .map(|_| {
                    embeddings.zero_grad();
                    let start = Instant::now();
                    let batch =
                        Batch { embeddings: &embeddings, labels: &labels, ids: &ids, weights: None, tensors: &tensors };
                    loss.forward(&batch, &mut Log::disabled()).expect("the loss works").backward();
                    start.elapsed().as_secs_f64() * 1e3
                })
                .skip(20)
                .collect();
            times.sort_by(f64::total_cmp);
            (component.name.to_string(), times[times.len() / 2])
        })
        .collect()
}
