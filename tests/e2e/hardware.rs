//! How a run computes: precision, profile, too little memory.

use crate::support::{Printed, Sandbox, run_folder, small_recipe, unwrapped};
use serde_json::Value;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "balanced_self_paced"));
    sandbox
}

/// The last value of a scalar in a run.
fn last(sandbox: &Sandbox, runs: &str, tag: &str) -> Option<f64> {
    let lines = std::fs::read_to_string(run_folder(&sandbox.path(runs)).join("metrics.jsonl")).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["tag"] == tag).filter_map(|record| record["value"].as_f64()).next_back()
}

fn trained(sandbox: &Sandbox, device: &str, precision: &str) -> (f64, Option<f64>) {
    let (runs, set) = (format!("{device}-{precision}"), format!("train.precision={precision}"));
    // The estimated share of correct labels moves in steps on such small data, so rounding would change the weights.
    let given = ["--set", "weights.lambda={ target_maw = 0.8 }", "--set", &set, "--threads", "1", "--device", device];
    let run = ["run", "small.toml", "--json", "--out", &runs].into_iter().chain(given);
    let result = sandbox.curricle_on_fakecuda(run).assert().success().json();
    (result["final_loss"].as_f64().unwrap(), last(sandbox, &runs, "train/loss_scale"))
}

#[test]
fn bf16_and_f16_train_nearly_as_well_as_f32() {
    let sandbox = sandbox();
    for device in ["cpu", "cuda"] {
        let (exact, _) = trained(&sandbox, device, "f32");
        for precision in ["bf16", "f16"] {
            let (loss, scale) = trained(&sandbox, device, precision);
            assert_ne!(loss, exact, "{precision} on {device} computes something else");
            assert!((loss - exact).abs() < 0.05 * exact, "{precision} on {device}: {loss} instead of {exact}");
            assert_eq!(scale.is_some(), precision == "f16");
        }
    }
}

#[test]
fn a_profile_shows_where_time_goes() {
    let sandbox = sandbox();
    let shown = sandbox.curricle(["run", "small.toml", "--profile", "--out", "shown"]).assert().success();
    let log = std::fs::read_to_string(run_folder(&sandbox.path("shown")).join("log.txt")).unwrap();
    for part in
        ["data", "forward", "loss", "backward", "optimizer", "weighting", "evaluation", "checkpoint", "tracking"]
    {
        let begins = |line: &str| line.starts_with(part) && line.contains('%');
        assert!(shown.stdout_text().lines().any(begins), "{}", shown.stdout_text());
        assert!(log.lines().any(begins), "{log}");
        // The last epoch ends with the result and not with a checkpoint.
        let took = |seconds: f64| seconds > 0.0 || part == "checkpoint";
        assert!(last(&sandbox, "shown", &format!("time/epoch/{part}")).is_some_and(took), "{part}");
    }
    assert!(!shown.stdout_text().contains("synchronised"), "nothing to synchronise on the CPU");

    let json = ["run", "small.toml", "--profile", "--json", "--device", "cuda", "--out", "json"];
    let result = sandbox.curricle_on_fakecuda(json).assert().success().json();
    let profile = &result["profile"];
    let sum: f64 = profile["parts"].as_array().unwrap().iter().map(|part| part["seconds"].as_f64().unwrap()).sum();
    assert!((sum - profile["seconds"].as_f64().unwrap()).abs() < 1e-6);
    assert_eq!((&profile["epochs"], &profile["synchronised"]), (&3.into(), &true.into()));

    let unasked = ["run", "small.toml", "--json", "--out", "unasked"];
    assert!(sandbox.curricle(unasked).assert().success().json().get("profile").is_none());
    assert!(last(&sandbox, "unasked", "time/epoch/forward").is_none());
}

#[test]
fn running_out_of_memory_names_the_cause_and_keeps_the_checkpoint() {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("ms", "uniform").replace("size = 16", "size = 64").replace("width = 4", "width = 64");
    sandbox.write("large.toml", recipe);
    let run = ["run", "large.toml", "--device", "cuda", "--set", "eval.batch_size=2"];
    let failed = sandbox.curricle_on_fakecuda(run).env("FAKECUDA_LIMIT", "24").assert().code(1);
    let message = unwrapped(&failed.stderr_text());
    for part in [
        "`cuda:0` has too little memory for a training step with 12 samples of 1 x 64 x 64 pixels in f32",
        "`sampler.per_class`",
        "`train.precision = \"bf16\"`",
        "CUDA out of memory",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let checkpoints = run_folder(&sandbox.path("runs")).join("checkpoints");
    assert!(std::fs::read_dir(checkpoints).unwrap().count() > 0);
    sandbox.curricle_on_fakecuda(run).assert().success();
}
