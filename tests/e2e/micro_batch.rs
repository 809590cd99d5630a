//! `train.micro_batch`: the numbers of the whole batch with the memory of a part of it.

use crate::support::{Printed, Sandbox, run_folder, unwrapped};
use serde_json::Value;

/// A small vision transformer on striped images, in batches of 12.
fn recipe(loss: &str, weights: &str) -> String {
    format!(
        r#"
[data]
source = "folder"
path = "images"
[noise]
name = "uniform"
ratio = 0.2
[images]
size = 32
flip = 0.5
[backbone]
name = "vit_small_16"
patch = 8
width = 32
depth = 2
heads = 2
[embedding]
size = 8
[sampler]
name = "pk"
classes = 4
per_class = 3
[loss]
name = "{loss}"
[weights]
name = "{weights}"
[optimizer]
name = "adamw"
lr = 1e-3
[train]
epochs = 3
log_every = 1
[eval]
recall_at = [1]
cluster = "never"
"#
    )
}

fn sandbox(loss: &str, weights: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write_images("images", 8, 6);
    sandbox.write("vit.toml", recipe(loss, weights));
    sandbox
}

/// The loss of every step, and the metrics of the trained network.
fn numbers(sandbox: &Sandbox, sets: &[&str]) -> (Vec<f64>, Value) {
    let out = format!("runs-{}", sets.join("-"));
    let mut args = vec!["run", "vit.toml", "--threads", "1", "--device", "cpu", "--json", "--out", &out];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let result = sandbox.curricle(args).assert().success().json();
    let lines = std::fs::read_to_string(run_folder(&sandbox.path(&out)).join("metrics.jsonl")).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let losses = records.filter(|record| record["tag"] == "train/loss").map(|record| record["value"].as_f64().unwrap());
    (losses.collect(), result["trained"].clone())
}

#[test]
fn training_gives_the_numbers_of_whole_batches() {
    let cases: [(&str, &str, &[&str]); 5] = [
        ("ms", "uniform", &[]),
        ("proxy_anchor", "uniform", &[]),
        ("ms", "prism", &["weights.warm_up=1"]),
        ("bspml", "balanced_self_paced", &["train.ema=0.9", "eval.network=ema"]),
        // The learning rate makes the rounding of f16 matter less than the difference that this looks for.
        ("contrastive", "uniform", &["train.precision=f16", "optimizer.lr=1e-4"]),
    ];
    for (loss, weights, sets) in cases {
        let sandbox = sandbox(loss, weights);
        let whole = numbers(&sandbox, sets);
        let parts = numbers(&sandbox, &[sets, &["train.micro_batch=5"]].concat());
        assert!(whole.0.len() >= 6 && whole.0.len() == parts.0.len(), "{loss}: {whole:?}");
        let tolerance = if sets.is_empty() || weights != "uniform" { 1e-3 } else { 1e-2 };
        for (a, b) in whole.0.iter().zip(&parts.0) {
            assert!((a - b).abs() <= tolerance * a.abs().max(1e-3), "{loss}, {weights}: {a} and {b}");
        }
    }
}

#[test]
fn dropped_paths_are_the_same_in_every_run_of_a_recipe() {
    let sandbox = sandbox("ms", "uniform");
    let sets = ["backbone.drop_path=0.5", "train.micro_batch=5"];
    let first = numbers(&sandbox, &sets);
    std::fs::rename(sandbox.path(format!("runs-{}", sets.join("-"))), sandbox.path("first")).unwrap();
    assert_eq!(first, numbers(&sandbox, &sets));
}

#[test]
fn memory_is_that_of_one_micro_batch() {
    let sandbox = sandbox("ms", "uniform");
    // Activations outweigh parameters.
    let wide = ["--set", "images.size=64", "--set", "images.resize=64", "--set", "eval.batch_size=1"];
    let peak = |size: &str| {
        let (out, size) = (format!("runs-{size}"), format!("train.micro_batch={size}"));
        let run = ["run", "vit.toml", "--device", "cuda", "--set", "train.epochs=1", "--out", &out, "--set", &size];
        let args: Vec<&str> = run.into_iter().chain(wide).collect();
        let done = sandbox.curricle_on_fakecuda(args).env("FAKECUDA_STATS", "1").assert().success();
        let printed = done.stderr_text();
        let found = printed.split_whitespace().find_map(|word| word.strip_prefix("mem_peak="));
        found.and_then(|number| number.parse::<f64>().ok()).unwrap_or_else(|| panic!("no `mem_peak` in\n{printed}"))
    };
    let (whole, parts) = (peak("12"), peak("2"));
    assert!(parts < 0.5 * whole, "{parts} of {whole} bytes");
}

#[test]
fn nonsense_is_refused_and_sizes_without_effect_are_noted() {
    let sandbox = sandbox("ms", "uniform");
    let check = |sets: &[&str]| {
        let mut args = vec!["check", "vit.toml"];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        sandbox.curricle(args).assert()
    };
    let refused = unwrapped(&check(&["train.micro_batch=0"]).code(2).stderr_text());
    assert!(refused.contains("train.micro_batch") && refused.contains("at least 1"), "{refused}");
    let all = |done: assert_cmd::assert::Assert| unwrapped(&(done.stdout_text() + &done.stderr_text()));
    let noted = all(check(&["train.micro_batch=12"]).success());
    assert!(noted.contains("has no effect: batches have 12 samples"), "{noted}");
    let noted = all(check(&["train.micro_batch=4", "backbone={name=\"resnet18\"}"]).success());
    assert!(noted.contains("batch norm computes its statistics from each micro-batch"), "{noted}");
    let quiet = all(check(&["train.micro_batch=4"]).success());
    assert!(!quiet.contains("micro_batch"), "{quiet}");
}
