//! What a training step does on CUDA, on the stand-in device: how many operators it launches, what the host does
//! meanwhile, deterministic algorithms, and a device that fails.

use crate::support::{Printed, Sandbox, counter, run_folder, small_recipe, unwrapped};
use serde_json::Value;

/// A network on small images, trained with multi-similarity: 24 training images.
fn recipe(network: &str) -> String {
    format!(
        r#"
[data]
source = "folder"
path = "images"
[images]
size = 32
[backbone]
name = "{network}"
[embedding]
size = 8
[sampler]
name = "pk"
classes = 2
per_class = 3
[loss]
name = "ms"
[optimizer]
name = "adamw"
lr = 1e-4
[train]
epochs = 1
log_every = 1000
[eval]
restarts = 1
recall_at = [1]
cluster = "never"
"#
    )
}

/// A counter for one further step: batches of two classes need more steps than those of four, for the same epoch.
fn per_step(sandbox: &Sandbox, file: &str, name: &str, sets: &[&str]) -> f64 {
    let run = |classes: &str| {
        let (classes, out) = (format!("sampler.classes={classes}"), format!("{name}-{classes}-{}", sets.len()));
        let mut args = vec!["run", file, "--device", "cuda", "--json", "--out", &out, "--set", &classes];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let done = sandbox.curricle_on_fakecuda(args).env("FAKECUDA_STATS", "1").env("OMP_NUM_THREADS", "2").assert();
        let done = done.success();
        let _ = std::fs::remove_dir_all(sandbox.path(&out));
        (done.json()["steps"].as_i64().unwrap(), counter(&done.stderr_text(), name))
    };
    let ((many, more), (few, fewer)) = (run("2"), run("4"));
    assert!(many > few);
    (more - fewer) as f64 / (many - few) as f64
}

/// Operator calls of one step, measured when this table was made, plus a tenth. A launch costs a GPU some
/// microseconds, which is what small networks and losses are made of. If a change makes steps cheaper, lower the
/// number; raise it only for something that is worth the launches.
const BUDGETS: [(&str, f64); 9] = [
    (r#"{ name = "conv4" }"#, 146.0),
    (r#"{ name = "squeezenet1_1" }"#, 247.0),
    (r#"{ name = "resnet18" }"#, 258.0),
    (r#"{ name = "resnet18", frozen_norm = true }"#, 258.0),
    (r#"{ name = "mobilenet_v2" }"#, 479.0),
    (r#"{ name = "resnet50" }"#, 491.0),
    (r#"{ name = "bn_inception" }"#, 636.0),
    (r#"{ name = "efficientnet_b0" }"#, 743.0),
    (r#"{ name = "vit_small_16", patch = 8, width = 32, depth = 2, heads = 2 }"#, 239.0),
];

#[test]
fn a_step_of_every_network_stays_within_its_budget_of_operator_calls() {
    let sandbox = Sandbox::new();
    sandbox.write_images("images", 8, 6);
    sandbox.write("images.toml", recipe("conv4"));
    for (network, budget) in BUDGETS {
        let calls = per_step(&sandbox, "images.toml", "op_calls", &[&format!("backbone={network}")]);
        assert!(calls <= budget, "a step of `{network}` calls {calls} operators; its budget is {budget}");
        assert!(calls > 10.0, "`{network}`: {calls} operators cannot be a step");
    }
}

#[test]
fn the_host_computes_nothing_in_parallel_during_a_step() {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 1");
    sandbox.write("small.toml", recipe.replace("size = 16", "size = 64"));
    let sets = ["train.log_every=1000", "eval.cluster=never"];
    assert_eq!(per_step(&sandbox, "small.toml", "host_parallel", &sets), 0.0);
}

#[test]
fn every_loss_and_scheme_trains_with_deterministic_algorithms() {
    let sandbox = Sandbox::new();
    for (loss, weights) in [
        ("ms", "uniform"),
        ("contrastive", "uniform"),
        ("triplet", "uniform"),
        ("margin", "uniform"),
        ("fastap", "uniform"),
        ("rdml", "uniform"),
        ("proxy_anchor", "uniform"),
        ("snr", "uniform"),
        ("circle", "uniform"),
        ("soft_triple", "uniform"),
        ("arcface", "uniform"),
        ("norm_softmax", "uniform"),
        ("bspml", "balanced_self_paced"),
        ("ms", "prism"),
        ("ms", "knn"),
    ] {
        // Images of 16 pixels end in a map of one pixel, which has to be enlarged: that has no deterministic gradient.
        sandbox.write("small.toml", small_recipe(loss, weights).replace("size = 16", "size = 32"));
        let mut run = vec!["run", "small.toml", "--device", "cuda", "--json", "--set", "train.epochs=1"];
        run.extend(["--set", "train.deterministic=true"]);
        if weights == "prism" {
            run.extend(["--set", "weights.warm_up=1"]);
        }
        let result: Value = sandbox.curricle_on_fakecuda(run).assert().success().json();
        assert!(result["final_loss"].as_f64().unwrap().is_finite(), "{loss}, {weights}");
    }
}

#[test]
fn networks_train_with_deterministic_algorithms() {
    let sandbox = Sandbox::new();
    sandbox.write_images("images", 8, 6);
    for (network, pooling) in
        [("mobilenet_v2", "average_max"), ("resnet18", "average_max"), ("bn_inception", "average")]
    {
        sandbox.write("images.toml", recipe(network));
        let pooling = format!("backbone.pooling={pooling}");
        let run = ["run", "images.toml", "--device", "cuda", "--set", "train.deterministic=true", "--set", &pooling];
        sandbox.curricle_on_fakecuda(run).assert().success();
    }
}

#[test]
fn a_device_that_fails_ends_the_run_with_its_message_and_not_the_process() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let run = ["run", "small.toml", "--device", "cuda"];
    // Seeding is the first call of a step, so it is the one that meets an error of the step before.
    let failed = sandbox.curricle_on_fakecuda(run).env("FAKECUDA_FAIL_SEED", "4").assert().code(1);
    let message = unwrapped(&failed.stderr_text());
    assert!(message.contains("while seeding the random generators"), "{message}");
    assert!(message.contains("CUDA error: an illegal memory access was encountered"), "{message}");
    assert!(run_folder(&sandbox.path("runs")).join("error.txt").exists());
}

#[test]
fn a_gpu_without_kernels_is_too_old_and_auto_takes_the_cpu() {
    let sandbox = Sandbox::new();
    let recipe = small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 1");
    sandbox.write("small.toml", recipe);
    let on =
        |args: &[&'static str]| sandbox.curricle_on_fakecuda(args.iter().copied()).env("FAKECUDA_PASCAL", "1").assert();
    let refusals: [(i32, &[&'static str]); 2] =
        [(2, &["run", "small.toml", "--device", "cuda"]), (1, &["doctor", "--device", "cuda"])];
    for (code, args) in refusals {
        let refused = on(args).code(code);
        let message = unwrapped(&(refused.stdout_text() + &refused.stderr_text()));
        assert!(message.contains("the GPU is too old: libtorch has kernels for compute capability 7.5"), "{message}");
        assert!(!message.contains("other CUDA programs"), "{message}");
    }
    let trained = on(&["run", "small.toml"]).success();
    let warned = unwrapped(&trained.stderr_text());
    assert!(warned.contains("using `cpu` although") && warned.contains("the GPU is too old"), "{warned}");
}
