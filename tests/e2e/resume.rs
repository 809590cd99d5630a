//! An interrupted run resumes and ends with the same bits as an uninterrupted one.

use crate::support::plugins::{cpp_example, rust_plugin};
use crate::support::{Sandbox, find_extension, metrics_lines, run_folder, small_recipe, timeless_metrics, unwrapped};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The parts of a finished run that must not depend on interruptions.
#[derive(PartialEq, Debug)]
struct Finished {
    metrics: Vec<String>,
    model: String,
    samples: String,
    result: serde_json::Value,
}

fn finished(runs: &Path) -> Finished {
    let run = run_folder(runs);
    let text = |name: &str| std::fs::read_to_string(run.join(name)).unwrap();
    let mut result: serde_json::Value = serde_json::from_str(&text("result.json")).unwrap();
    result.as_object_mut().unwrap().remove("seconds");
    let model = std::fs::read(run.join("model.safetensors")).unwrap();
    Finished { metrics: timeless_metrics(&run), model: format!("{model:?}"), samples: text("samples.csv"), result }
}

/// With a checkpoint after every epoch, since these take less than a second.
const RUN: [&str; 8] = ["run", "small.toml", "--set", "train.epochs=4", "--threads", "1", "--checkpoint-every", "0"];

/// Waits until the run has written that many lines of metrics, or has ended.
fn wait_for_lines(sandbox: &Sandbox, child: &mut Child, lines: usize) {
    let started = Instant::now();
    while metrics_lines(&sandbox.path("runs")) < lines && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(120), "the run makes no progress");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(status.success() || name == "KILL");
}

fn sandbox(precision: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    // Everything that has state: declared tensors, moments, weights, running statistics, noise.
    let recipe = small_recipe("bspml", "balanced_self_paced");
    sandbox.write("small.toml", recipe.replace("[train]", &format!("[train]\nprecision = \"{precision}\"")));
    sandbox
}

fn uninterrupted(precision: &str) -> Finished {
    let sandbox = sandbox(precision);
    sandbox.curricle(RUN).assert().success();
    finished(&sandbox.path("runs"))
}

#[test]
fn a_run_killed_at_any_moment_resumes_exactly() {
    let wanted = uninterrupted("f32");
    let total = wanted.metrics.len();
    for lines in [1, total / 3, total / 2, 3 * total / 4, total] {
        let sandbox = sandbox("f32");
        let mut child = sandbox.start(RUN);
        wait_for_lines(&sandbox, &mut child, lines);
        signal(&child, "KILL");
        child.wait().unwrap();
        sandbox.curricle(RUN).assert().success();
        assert_eq!(finished(&sandbox.path("runs")), wanted, "killed after {lines} lines");
    }
}

#[test]
fn a_run_stopped_by_a_signal_leaves_a_usable_checkpoint_and_resumes_exactly() {
    let wanted = uninterrupted("f32");
    for name in ["INT", "TERM", "HUP"] {
        let sandbox = sandbox("f32");
        let mut child = sandbox.start(RUN);
        wait_for_lines(&sandbox, &mut child, wanted.metrics.len() / 2);
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(75), "SIG{name}");
        let checkpoints = std::fs::read_dir(run_folder(&sandbox.path("runs")).join("checkpoints")).unwrap();
        let mut tensors =
            checkpoints.flatten().map(|entry| entry.path()).filter(|path| path.extension().unwrap() != "json");
        let checkpoint = tensors.next().unwrap();
        let embed = ["embed", checkpoint.to_str().unwrap(), "--data", "test", "--out", "test.safetensors"];
        sandbox.curricle(embed).assert().success();
        sandbox.curricle(["eval", "test.safetensors"]).assert().success();
        sandbox.curricle(RUN).assert().success();
        assert_eq!(finished(&sandbox.path("runs")), wanted, "SIG{name}");
    }
}

#[test]
fn a_run_in_bf16_or_f16_resumes_exactly() {
    for precision in ["bf16", "f16"] {
        let wanted = uninterrupted(precision);
        let sandbox = sandbox(precision);
        let mut child = sandbox.start(RUN);
        wait_for_lines(&sandbox, &mut child, wanted.metrics.len() / 2);
        signal(&child, "INT");
        child.wait().unwrap();
        sandbox.curricle(RUN).assert().success();
        assert_eq!(finished(&sandbox.path("runs")), wanted, "{precision}");
    }
}

/// State in every place that a plugin can have it: learnable and other tensors of a loss, tensors of a weight scheme,
/// weights of every step, numbers per sample, a teacher.
#[test]
fn a_run_with_the_memory_of_a_plugin_resumes_exactly() {
    let libraries = [
        ("", rust_plugin("examples/teacher-memory", "teacher_memory")),
        ("_cpp", cpp_example("teacher-memory-cpp", "teacher_memory_cpp")),
    ];
    let wanted = libraries.map(|(language, library)| {
        let recipe = small_recipe(&format!("teacher_memory{language}"), &format!("class_means{language}"));
        let recipe = recipe.replace("[train]", "[train]\nema = 0.9");
        let run: Vec<_> = RUN.into_iter().chain(["--plugin", library.to_str().unwrap()]).collect();
        let start = || {
            let sandbox = Sandbox::new();
            sandbox.write("small.toml", &recipe);
            sandbox
        };
        let whole = start();
        whole.curricle(run.iter().copied()).assert().success();
        let wanted = finished(&whole.path("runs"));
        for (name, lines) in [("KILL", wanted.metrics.len() / 3), ("TERM", wanted.metrics.len() / 2)] {
            let sandbox = start();
            let mut child = sandbox.start(run.iter().copied());
            wait_for_lines(&sandbox, &mut child, lines);
            signal(&child, name);
            assert!(!child.wait().unwrap().success(), "SIG{name} came too late");
            sandbox.curricle(run.iter().copied()).assert().success();
            assert_eq!(finished(&sandbox.path("runs")), wanted, "SIG{name}, `teacher_memory{language}`");
        }
        wanted
    });
    let header = wanted[0].samples.lines().next().unwrap();
    assert!(header.contains("agreement") && header.contains("loss_nearest_negative"), "{header}");
    assert!(wanted[0].metrics.iter().any(|line| line.contains("weights/auroc")), "the weights of steps are evaluated");
    assert_eq!(wanted[0].model, wanted[1].model, "Rust and C++ give the same bits");
    assert_eq!(wanted[0].samples, wanted[1].samples, "Rust and C++ give the same bits");
}

#[test]
fn checkpoints_are_rare_by_default_and_a_killed_run_resumes_exactly_all_the_same() {
    let wanted = uninterrupted("f32");
    let (sandbox, rarely) = (sandbox("f32"), &RUN[..6]);
    let mut child = sandbox.start(rarely.iter().copied());
    wait_for_lines(&sandbox, &mut child, 3 * wanted.metrics.len() / 4);
    signal(&child, "KILL");
    child.wait().unwrap();
    let checkpoints = run_folder(&sandbox.path("runs")).join("checkpoints");
    assert!(checkpoints.join("step-00000000.json").is_file(), "the one before training");
    sandbox.curricle(rarely.iter().copied()).assert().success();
    assert_eq!(finished(&sandbox.path("runs")), wanted);
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_run_and_earlier_ones_are_kept() {
    let wanted = uninterrupted("f32");
    let sandbox = sandbox("f32");
    let mut child = sandbox.start(RUN);
    wait_for_lines(&sandbox, &mut child, 1);
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(75));
    // The next checkpoint, at the end of an epoch of five steps: a folder cannot be replaced by a file.
    let checkpoints = run_folder(&sandbox.path("runs")).join("checkpoints");
    let kept = find_extension(&checkpoints, "json").remove(0);
    let step: u32 = kept.file_stem().unwrap().to_str().unwrap().trim_start_matches("step-").parse().unwrap();
    let name = format!("step-{:08}.safetensors", (step / 5 + 1) * 5);
    std::fs::create_dir(checkpoints.join(&name)).unwrap();
    let failed = sandbox.curricle(RUN).assert().code(1);
    let message = unwrapped(&String::from_utf8_lossy(&failed.get_output().stderr)).replace("- ", "-");
    assert!(message.contains("cannot write") && message.contains(&name), "{message}");
    std::fs::remove_dir(checkpoints.join(&name)).unwrap();
    assert_eq!(find_extension(&checkpoints, "json"), [kept]);
    sandbox.curricle(RUN).assert().success();
    assert_eq!(finished(&sandbox.path("runs")), wanted);
}

#[test]
fn a_run_started_with_different_data_is_not_resumed() {
    let sandbox = sandbox("f32");
    let mut child = sandbox.start(RUN);
    wait_for_lines(&sandbox, &mut child, 20);
    signal(&child, "KILL");
    child.wait().unwrap();
    let manifest = run_folder(&sandbox.path("runs")).join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["conditions"]["data"] = "another".into();
    std::fs::write(&manifest, json.to_string()).unwrap();
    let refused = sandbox.curricle(RUN).assert().code(1);
    let message = unwrapped(&String::from_utf8_lossy(&refused.get_output().stderr));
    assert!(message.contains("started with different data") && message.contains("--force"), "{message}");
    sandbox.curricle(RUN.into_iter().chain(["--force"])).assert().success();
}

#[test]
fn a_run_of_zero_epochs_that_failed_at_its_end_resumes() {
    let sandbox = sandbox("f32");
    let run = ["run", "small.toml", "--set", "train.epochs=0"];
    let whole = ["run", "small.toml", "--set", "train.epochs=0", "--out", "whole"];
    sandbox.curricle(whole).assert().success();
    // A folder cannot be replaced by a file.
    let model = run_folder(&sandbox.path("whole")).join("model.safetensors");
    let model = sandbox.path("runs").join(model.strip_prefix(sandbox.path("whole")).unwrap());
    std::fs::create_dir_all(&model).unwrap();
    sandbox.curricle(run).assert().code(1);
    std::fs::remove_dir(&model).unwrap();
    sandbox.curricle(run).assert().success();
    assert_eq!(finished(&sandbox.path("runs")), finished(&sandbox.path("whole")));
}

/// Sums over thousands of rows, which libtorch shares among its threads.
#[test]
fn several_threads_give_the_same_bits_every_time() {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("ms", "prism").replace("classes = 12", "classes = 60").replace("size = 8", "size = 64");
    sandbox.write("small.toml", recipe.replace("per_class = 10", "per_class = 30"));
    let run = |out| {
        let set = ["--set", "train.epochs=1", "--set", "weights.warm_up=0", "--threads", "4", "--out", out];
        sandbox.curricle(["run", "small.toml"].into_iter().chain(set)).assert().success();
        finished(&sandbox.path(out))
    };
    assert_eq!(run("first"), run("second"));
}
