//! Overhead of training: `cargo bench -p curricle --bench train`.
//!
//! Runs the program on the built-in data set and prints, as JSON lines, the time from its start to
//! the end of the first training step (including the evaluation of the untrained model), and the
//! share of a step spent outside network, loss, gradients and optimiser.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/methods/ms.toml");
const REPETITIONS: usize = 5;

fn main() {
    let mut starts = Vec::new();
    let mut outside = Vec::new();
    for repetition in 0..REPETITIONS {
        let out = std::env::temp_dir().join(format!("curricle-bench-{}-{repetition}", std::process::id()));
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_curricle"))
            .args(["--quiet", "run", RECIPE, "--set", "train.epochs=1", "--set", "train.log_every=1", "--out"])
            .arg(&out)
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        while !lines(&out).iter().any(|line| line.contains("\"train/loss\"")) {
            assert!(started.elapsed() < Duration::from_secs(300), "no step within five minutes");
            std::thread::sleep(Duration::from_millis(2));
        }
        starts.push(started.elapsed().as_secs_f64());
        assert!(child.wait().expect("the program ends").success());
        let shares = |tag: &str| -> Vec<f64> {
            let records = lines(&out).into_iter().map(|line| serde_json::from_str(&line).expect("a record"));
            let of_tag = records.filter(|record: &serde_json::Value| record["tag"] == tag);
            of_tag.filter_map(|record| record["value"].as_f64()).collect()
        };
        let (data, rest) = (shares("time/share/data"), shares("time/share/outside"));
        outside.extend(data.iter().zip(rest).map(|(data, rest)| data + rest));
        std::fs::remove_dir_all(&out).expect("the run can be removed");
    }
    println!("{{\"cpu\": \"{}\"}}", cpu::name());
    println!("{{\"name\": \"start to first step\", \"median_seconds\": {:.3}}}", median(&mut starts));
    println!("{{\"name\": \"share of a step outside\", \"median\": {:.4}}}", median(&mut outside));
}

/// The lines of the only `metrics.jsonl` below a folder, as far as it has been written.
fn lines(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.file_name().is_some_and(|name| name == "metrics.jsonl") {
            return std::fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_string).collect();
        } else if path.is_dir() {
            let found = lines(&path);
            if !found.is_empty() {
                return found;
            }
        }
    }
    Vec::new()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
