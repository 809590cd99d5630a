//! Median time of forward and backward for each loss at batch 64 (16 classes × 4), 512 dimensions.
//!
//! `cargo bench -p curricle-losses --bench losses` prints one JSON line per loss, in the form of
//! `benches/peer_losses.py`. With `-- --peer PYTHON` it alternates with that script, run by the given
//! Python, and prints the ratios instead; the script says what it needs. `--threads N` sets the
//! number of threads on both sides, 2 by default.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use curricle_sdk::{Batch, ComponentKind, Init, Log, Shape, Tensors, registered};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;
use tch::{Device, Kind, Tensor};

// Linking the crate is what registers its losses.
use curricle_losses as _;

const CLASSES: i64 = 100;
const DIMENSIONS: i64 = 512;
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value_of = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|i| arguments.get(i + 1));
    let threads = value_of("--threads").map_or(2, |n| n.parse().expect("a number of threads"));
    tch::set_num_threads(threads);
    match value_of("--peer") {
        Some(python) => compare(python, threads),
        None => {
            for Measured { name, median_ms, min_ms } in ours() {
                println!("{}", json!({"name": name, "median_ms": median_ms, "min_ms": min_ms}));
            }
        }
    }
}

/// Times of one loss.
struct Measured {
    name: String,
    median_ms: f64,
    min_ms: f64,
}

/// Alternates between both sides, so that a busy machine slows down both.
fn compare(python: &str, threads: i32) {
    let (mut all_ours, mut all_theirs) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..ROUNDS {
        ours().into_iter().for_each(|m| keep_best(&mut all_ours, m));
        theirs(python, threads).into_iter().for_each(|m| keep_best(&mut all_theirs, m));
    }
    println!("{}", cpu::name());
    println!("forward and backward at 64 x {DIMENSIONS}, {threads} threads, ms, best of {ROUNDS} rounds");
    println!("{:<14}{:>10}{:>10}{:>8}{:>12}{:>10}{:>8}", "loss", "median", "peer", "ratio", "minimum", "peer", "ratio");
    for (name, (median, min)) in &all_ours {
        print!("{name:<14}{median:>10.3}");
        match all_theirs.get(name) {
            Some((m, n)) => println!("{m:>10.3}{:>8.1}{min:>12.3}{n:>10.3}{:>8.1}", m / median, n / min),
            None => println!("{:>10}{:>8}{min:>12.3}{:>10}{:>8}", "-", "-", "-", "-"),
        }
    }
}

fn keep_best(best: &mut BTreeMap<String, (f64, f64)>, measured: Measured) {
    let entry = best.entry(measured.name).or_insert((f64::INFINITY, f64::INFINITY));
    *entry = (entry.0.min(measured.median_ms), entry.1.min(measured.min_ms));
}

fn theirs(python: &str, threads: i32) -> Vec<Measured> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peer_losses.py");
    let output = Command::new(python).arg(script).arg(threads.to_string()).output().expect("the peer's Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("the peer prints JSON lines");
            let number = |key: &str| line[key].as_f64().expect("a number");
            let name = line["name"].as_str().expect("a name").to_string();
            Measured { name, median_ms: number("median_ms"), min_ms: number("min_ms") }
        })
        .collect()
}

fn ours() -> Vec<Measured> {
    curricle_torch::seed(0).expect("a seed");
    let options = (Kind::Float, Device::Cpu);
    let labels = Tensor::arange(64, (Kind::Int64, Device::Cpu)).floor_divide_scalar(4);
    let ids = Tensor::arange(64, (Kind::Int64, Device::Cpu));
    let raw = Tensor::randn([64, DIMENSIONS], options);
    let points = &raw / raw.norm_scalaropt_dim(2.0, 1, true);
    let shape = Shape { classes: CLASSES, samples: 64, embedding: DIMENSIONS };
    let losses = registered().into_iter().filter(|c| c.kind == ComponentKind::Loss);
    losses
        .map(|component| {
            let loss = component.factory.loss(&json!({})).expect("defaults are valid");
            let mut tensors = Tensors::default();
            for spec in loss.tensors(&shape) {
                let tensor = match spec.init {
                    Init::Constant(value) => Tensor::full(&spec.shape, value, options),
                    Init::Normal { std } => Tensor::randn(&spec.shape, options) * std,
                    Init::Uniform { low, high } => Tensor::rand(&spec.shape, options) * (high - low) + low,
                };
                tensors.insert(spec.name, tensor.set_requires_grad(spec.trainable));
            }
            let mut times: Vec<f64> = (0..320)
                .map(|_| {
                    // As in the peer, gradients are written rather than accumulated.
                    let embeddings = points.detach().set_requires_grad(true);
                    let start = Instant::now();
                    let batch = Batch::new(&embeddings, &labels, &ids, &tensors);
                    loss.forward(&batch, &mut Log::disabled()).expect("the loss works").backward();
                    start.elapsed().as_secs_f64() * 1e3
                })
                .skip(20)
                .collect();
            times.sort_by(f64::total_cmp);
            Measured { name: component.name.to_string(), median_ms: times[times.len() / 2], min_ms: times[0] }
        })
        .collect()
}
