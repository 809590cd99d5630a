//! `curricle run`: the files it writes and its exit codes.

use crate::support::{Printed, Sandbox, run_folder, small_recipe, timeless_metrics, unwrapped};
use std::fs::File;

#[test]
fn a_run_writes_all_documented_files() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("bspml", "balanced_self_paced"));
    let done = sandbox.curricle(["run", "small.toml"]).assert().success();
    assert!(done.stdout_text().contains("recall@1"), "{}", done.stdout_text());
    assert!(done.stderr_text().contains("epoch 3/3"), "{}", done.stderr_text());

    let run = run_folder(&sandbox.path("runs"));
    for file in ["recipe.toml", "manifest.json", "labels.csv", "metrics.jsonl", "log.txt", "samples.csv", "result.json"]
    {
        assert!(run.join(file).is_file(), "no {file}");
    }
    for file in ["model.safetensors", "projector_config.pbtxt", "projector/sprite.png", "retrieval.png"] {
        assert!(run.join(file).is_file(), "no {file}");
    }
    assert!(!run.join("checkpoints").exists(), "a finished run needs no checkpoint");
    let tags = timeless_metrics(&run).join("\n");
    for tag in [
        "train/loss",
        "train/lr/backbone",
        "train/gradient_norm",
        "train/epoch_loss",
        "eval/recall@1",
        "eval/nmi",
        "weights/lambda",
        "weights/maw",
        "weights/auroc",
        "weights/objective",
    ] {
        assert!(tags.contains(&format!("\"{tag}\"")), "no {tag} in\n{tags}");
    }
    let samples = std::fs::read_to_string(run.join("samples.csv")).unwrap();
    let titles = samples.lines().next().unwrap();
    for title in ["sample", "path", "label", "weight", "xi_pos", "xi_neg", "suspected", "nearest_class", "flipped"] {
        assert!(titles.split(',').any(|t| t == title), "no column {title} in {titles}");
    }
    assert_eq!(samples.lines().count(), 1 + 6 * 10);
}

#[test]
fn the_resolved_recipe_alone_repeats_the_run() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    sandbox.curricle(["run", "small.toml", "--set", "train.epochs=2"]).assert().success();
    let first = run_folder(&sandbox.path("runs"));
    let recipe = first.join("recipe.toml");
    sandbox.curricle(["run", recipe.to_str().unwrap(), "--out", "again"]).assert().success();
    let second = run_folder(&sandbox.path("again"));
    assert_eq!(first.strip_prefix(sandbox.path("runs")).unwrap(), second.strip_prefix(sandbox.path("again")).unwrap());
    assert_eq!(timeless_metrics(&first), timeless_metrics(&second));
    let model = |run: &std::path::Path| std::fs::read(run.join("model.safetensors")).unwrap();
    assert!(model(&first) == model(&second), "the weights differ");
}

#[test]
fn a_finished_run_is_skipped_unless_forced() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let run = ["run", "small.toml", "--set", "train.epochs=1"];
    sandbox.curricle(run).assert().success();
    let result = run_folder(&sandbox.path("runs")).join("result.json");
    let written = || std::fs::metadata(&result).unwrap().modified().unwrap();
    let before = written();
    let again = sandbox.curricle(run).assert().success();
    assert!(again.stderr_text().contains("already finished"), "{}", again.stderr_text());
    assert_eq!(before, written());
    sandbox.curricle(run.into_iter().chain(["--force"])).assert().success();
    assert_ne!(before, written());
}

#[test]
fn a_run_locked_by_another_process_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let run = ["run", "small.toml", "--set", "train.epochs=1"];
    sandbox.curricle(run).assert().success();
    let lock = File::open(run_folder(&sandbox.path("runs")).join(".lock")).unwrap();
    lock.lock().unwrap();
    let refused = sandbox.curricle(run.into_iter().chain(["--force"])).assert().code(69);
    assert!(unwrapped(&refused.stderr_text()).contains("another process is working on"), "{}", refused.stderr_text());
}

#[test]
fn conditions_do_not_depend_on_the_loss() {
    let sandbox = Sandbox::new();
    let conditions = |loss: &str, weights: &str| {
        sandbox.write("small.toml", small_recipe(loss, weights));
        let run = ["run", "small.toml", "--set", "train.epochs=1", "--json"];
        let result = sandbox.curricle(run).assert().success().json();
        (result["conditions"].clone(), result["batches"].clone(), result["untrained"].clone())
    };
    let ms = conditions("ms", "uniform");
    assert_eq!(ms, conditions("proxy_anchor", "uniform"));
    assert_eq!(ms, conditions("bspml", "balanced_self_paced"));
}

#[test]
fn a_loss_that_is_not_finite_names_its_samples() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let run = ["run", "small.toml", "--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e38"];
    let failed = sandbox.curricle(run).assert().code(1);
    let message = unwrapped(&failed.stderr_text());
    assert!(message.contains("the loss, the embeddings or the gradients are not finite in epoch 1"), "{message}");
    assert!(message.contains("contains the samples"), "{message}");
    assert!(run_folder(&sandbox.path("runs")).join("checkpoints/step-00000000.json").is_file());
}

#[test]
fn a_result_with_infinite_numbers_can_be_read_back() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "self_paced"));
    let run = ["run", "small.toml", "--set", "weights.lambda=1e308", "--json"];
    let first = sandbox.curricle(run).assert().success().json();
    let again = sandbox.curricle(run).assert().success().json();
    assert_eq!(first["weighting"], again["weighting"]);
    assert!(first["weighting"].to_string().contains("Infinity"), "{first}");
}

#[test]
fn mistakes_of_the_user_exit_with_code_2() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("mss", "uniform"));
    let wrong = sandbox.curricle(["run", "small.toml"]).assert().code(2);
    assert!(wrong.stderr_text().contains("did you mean `ms`?"), "{}", wrong.stderr_text());
    let missing = sandbox.curricle(["run", "smal.toml"]).assert().code(2);
    assert!(missing.stderr_text().contains("did you mean `small.toml`?"), "{}", missing.stderr_text());
    sandbox.curricle(["run"]).assert().code(2);
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let device = sandbox.curricle(["run", "small.toml", "--device", "cudda"]).assert().code(2);
    assert!(device.stderr_text().contains("cudda"), "{}", device.stderr_text());
}
