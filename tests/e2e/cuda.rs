//! Runs on CUDA: on the stand-in device, or on a real GPU where there is one and
//! `CURRICLE_TEST_GPU` is set.

use crate::support::images::{image_recipe, write_images};
use crate::support::{Printed, Sandbox, counter, nearly_equal, run_folder, small_recipe};
use assert_cmd::assert::Assert;
use serde_json::json;

const METHODS: [(&str, &str); 16] = [
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
    ("ms", "oracle"),
];

/// Settings with which a scheme leaves samples out in a run of a few steps.
fn in_short_runs(weights: &str) -> &'static [&'static str] {
    if weights == "prism" { &["--set", "weights.warm_up=1"] } else { &[] }
}

fn on_cuda(sandbox: &Sandbox, args: &[&str]) -> assert_cmd::Command {
    if std::env::var_os("CURRICLE_TEST_GPU").is_some() {
        sandbox.curricle(args.iter().copied())
    } else {
        on_fakecuda(sandbox, args)
    }
}

/// On the stand-in device in any case: it computes as the CPU does and counts transfers.
fn on_fakecuda(sandbox: &Sandbox, args: &[&str]) -> assert_cmd::Command {
    let mut command = sandbox.curricle_on_fakecuda(args.iter().copied());
    command.env("FAKECUDA_STATS", "1");
    command
}

#[test]
fn every_method_trains_on_cuda() {
    let sandbox = Sandbox::new();
    for (loss, weights) in METHODS {
        sandbox.write("small.toml", small_recipe(loss, weights));
        let run = ["run", "small.toml", "--set", "train.epochs=1", "--device", "cuda", "--json"];
        let run = [&run, in_short_runs(weights)].concat();
        let result = on_cuda(&sandbox, &run).assert().success().json();
        assert!(result["final_loss"].as_f64().unwrap().is_finite(), "{loss}, {weights}");
    }
}

#[test]
fn a_memory_stays_on_the_device() {
    let sandbox = Sandbox::new();
    for loss in ["ms", "contrastive", "circle"] {
        sandbox.write("small.toml", small_recipe(loss, "uniform"));
        let read_back = |size: &str, classes: &str| {
            let out = format!("{loss}-{size}-{classes}");
            let (size, classes) = (format!("loss.memory.size={size}"), format!("sampler.classes={classes}"));
            let mut run = vec!["run", "small.toml", "--device", "cuda", "--json", "--out", &out];
            run.extend(["--set", &size, "--set", &classes, "--set", "train.log_every=1000"]);
            run.extend(["--set", "eval.cluster=never"]);
            let done = on_fakecuda(&sandbox, &run).assert().success();
            assert!(done.json()["final_loss"].as_f64().unwrap().is_finite(), "{loss}");
            counter(&done.stderr_text(), "items") + counter(&done.stderr_text(), "syncs")
        };
        // The memory is read for checkpoints, but not in steps, of which batches of two classes need twice as many.
        let more = |classes: &str| read_back("30", classes) - read_back("0", classes);
        assert_eq!(more("2"), more("4"), "{loss}");
    }
}

#[test]
fn training_on_the_stand_in_device_equals_training_on_the_cpu() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("bspml", "balanced_self_paced"));
    let on = |device: &str| {
        let run = ["run", "small.toml", "--threads", "1", "--device", device, "--json", "--out", device];
        let result = on_fakecuda(&sandbox, &run).assert().success().json();
        json!({ "trained": result["trained"], "final_loss": result["final_loss"] })
    };
    let (on_cpu, on_cuda) = (on("cpu"), on("cuda"));
    assert!(nearly_equal(&on_cpu, &on_cuda), "{on_cpu} on the CPU, {on_cuda} on the device");
}

#[test]
fn a_vision_transformer_trains_on_cuda_as_on_the_cpu_without_synchronisation() {
    let sandbox = Sandbox::new();
    sandbox.write_images("images", 8, 6);
    let vit = "name = \"vit_small_16\"\npatch = 8\nwidth = 32\ndepth = 2\nheads = 2\nregisters = 1\nlayer_scale = 0.1\n\
               checkpointing = true\nlayer_decay = 0.8";
    let recipe = images_recipe("ms", "uniform").replace("name = \"mobilenet_v2\"", vit).replace("bf16", "f32");
    sandbox.write("vit.toml", recipe);
    let on = |device: &str, sets: &[&str]| {
        let out = format!("{device}-{}", sets.len());
        let mut args = vec!["run", "vit.toml", "--device", device, "--threads", "1", "--json", "--out", &out];
        args.extend(["--set", "train.log_every=1000", "--set", "eval.cluster=never"]);
        sets.iter().for_each(|set| args.extend(["--set", set]));
        on_fakecuda(&sandbox, &args).assert().success()
    };
    let (on_cpu, on_cuda) = (on("cpu", &[]), on("cuda", &[]));
    // Attention on the CPU has a kernel with another order of sums.
    let loss = |done: &Assert| done.json()["final_loss"].as_f64().unwrap();
    assert!((loss(&on_cpu) - loss(&on_cuda)).abs() < 1e-5, "{} and {}", loss(&on_cpu), loss(&on_cuda));
    let fewer = on("cuda", &["sampler.classes=4"]);
    for name in ["syncs", "items"] {
        let count = |done: &Assert| counter(&done.stderr_text(), name);
        assert_eq!(count(&on_cuda), count(&fewer), "{name}: none for each step");
    }
    on("cuda", &["train.precision=bf16", "backbone.drop_path=0.2"]);
}

/// Training on images with a network in bf16; 24 training images.
fn images_recipe(loss: &str, weights: &str) -> String {
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
[backbone]
name = "mobilenet_v2"
[embedding]
size = 8
[sampler]
name = "pk"
classes = 2
per_class = 3
[loss]
name = "{loss}"
[weights]
name = "{weights}"
[optimizer]
name = "adamw"
lr = 1e-4
[train]
epochs = 1
precision = "bf16"
[eval]
restarts = 1
recall_at = [1]
"#
    )
}

#[test]
fn every_method_trains_in_bf16_and_synchronises_once_per_logged_step() {
    let sandbox = Sandbox::new();
    sandbox.write_images("images", 8, 6);
    for (loss, weights) in METHODS {
        sandbox.write("images.toml", images_recipe(loss, weights));
        let run = |name: &str, sets: &[&str]| {
            let out = format!("{loss}-{weights}-{name}");
            let mut args = vec!["run", "images.toml", "--device", "cuda", "--threads", "1", "--json", "--out", &out];
            // How often k-means synchronises depends on the embeddings.
            args.extend(["--set", "eval.cluster=never"]);
            args.extend(in_short_runs(weights));
            sets.iter().for_each(|set| args.extend(["--set", set]));
            let done = on_cuda(&sandbox, &args).assert().success();
            assert!(done.json()["final_loss"].as_f64().unwrap().is_finite(), "{loss}");
            let log = std::fs::read_to_string(run_folder(&sandbox.path(&out)).join("log.txt")).unwrap();
            assert!(log.contains("network computes in bf16, channels last"), "{log}");
            done
        };
        let rarely = run("rarely", &["train.log_every=1000"]);
        let always = run("always", &["train.log_every=1"]);
        // Half the batches, the same samples to evaluate and weight.
        let fewer = run("fewer", &["train.log_every=1000", "sampler.classes=4"]);
        if std::env::var_os("CURRICLE_TEST_GPU").is_none() {
            let syncs = |done: &Assert| counter(&done.stderr_text(), "syncs");
            let steps = |done: &Assert| done.json()["steps"].as_i64().unwrap();
            assert!(steps(&rarely) > steps(&fewer));
            assert_eq!(
                syncs(&always) - syncs(&rarely),
                steps(&rarely) - 1,
                "{loss}, {weights}: one for each logged step"
            );
            assert_eq!(syncs(&rarely), syncs(&fewer), "{loss}, {weights}: none for the others");
            // A weight scheme may read a number at the end of an epoch; steps do not.
            let items = |done: &Assert| counter(&done.stderr_text(), "items");
            assert_eq!(items(&always), items(&fewer), "{loss}, {weights}");
        }
    }
}

#[test]
fn a_step_reads_nothing_back_except_what_is_logged() {
    let sandbox = Sandbox::new();
    // 60 samples in batches of 12: five steps an epoch.
    sandbox.write("small.toml", small_recipe("proxy_anchor", "uniform"));
    let transfers = |log_every: &str| {
        let log_every = format!("train.log_every={log_every}");
        let run = ["run", "small.toml", "--device", "cuda", "--set", "train.epochs=1", "--set", &log_every];
        let printed = on_fakecuda(&sandbox, &run).assert().success().stderr_text();
        (counter(&printed, "d2h_copies"), counter(&printed, "h2d_copies"), counter(&printed, "items"))
    };
    let (rarely, sent, items) = transfers("1000");
    let (always, sent_too, _) = transfers("1");
    assert_eq!(always - rarely, 4, "one copy for each of the four further logged steps");
    assert_eq!(sent, sent_too, "logging sends nothing to the device");
    assert_eq!(items, 1, "the initial proxies are checked once; steps read no single numbers");
}

#[test]
fn images_reach_the_device_without_synchronisation() {
    let sandbox = Sandbox::new();
    write_images(&sandbox, 8, 12);
    sandbox.write("small.toml", image_recipe("proxy_anchor", "uniform"));
    let on = |device: &str, epochs: &str| {
        let epochs = format!("train.epochs={epochs}");
        let run = ["run", "small.toml", "--threads", "1", "--device", device, "--set", &epochs];
        let more = [
            "--set",
            "train.log_every=1000",
            "--set",
            "eval.every=1000",
            "--set",
            "eval.cluster=never",
            "--json",
            "--out",
            device,
        ];
        let done = on_fakecuda(&sandbox, &[&run[..], &more[..]].concat()).assert().success();
        let result = done.json();
        (json!({ "trained": result["trained"], "final_loss": result["final_loss"] }), done.stderr_text())
    };
    let (on_cpu, _) = on("cpu", "2");
    let (on_cuda, two) = on("cuda", "2");
    assert!(nearly_equal(&on_cpu, &on_cuda), "{on_cpu} on the CPU, {on_cuda} on the device");
    // 48 samples in batches of 12: four further steps, none of which waits.
    let three = on("cuda", "3").1;
    let more = |name| counter(&three, name) - counter(&two, name);
    assert!(more("h2d_copies") >= 4, "{three}");
    let logged = more("d2h_copies");
    assert!(more("syncs") <= logged + 2, "{} waits for {logged} numbers read back", more("syncs"));
}

#[test]
fn the_memory_format_and_advice_depend_on_the_card() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let log = |out: &str, card: &[(&str, &str)], sets: &[&str]| {
        let mut args = vec!["run", "small.toml", "--device", "cuda", "--set", "train.epochs=1", "--out", out];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        on_fakecuda(&sandbox, &args).envs(card.iter().copied()).assert().success();
        std::fs::read_to_string(run_folder(&sandbox.path(out)).join("log.txt")).unwrap()
    };
    let (ampere, turing) = (log("ampere", &[], &[]), log("turing", &[("FAKECUDA_TURING", "1")], &[]));
    assert!(ampere.contains("f32, channels last") && ampere.contains("`train.precision = \"bf16\"`"), "{ampere}");
    assert!(turing.contains("f32, channels first") && !turing.contains("bf16"), "{turing}");
    let exact = log("exact", &[], &["train.tf32=false"]);
    assert!(exact.contains("f32, channels first"), "{exact}");
    let short = log("short", &[("FAKECUDA_TURING", "1")], &["train.precision=f16"]);
    assert!(short.contains("f16, channels last") && !short.contains("bf16"), "{short}");
}

#[test]
fn a_checkpoint_waits_for_the_device_once() {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("ms", "uniform"));
    let run = |out: &str, seconds: &str| {
        let run = ["run", "small.toml", "--device", "cuda", "--checkpoint-every", seconds, "--out", out];
        let more = ["--set", "eval.every=100", "--set", "eval.cluster=never"];
        on_fakecuda(&sandbox, &[&run[..], &more[..]].concat()).assert().success().stderr_text()
    };
    let (always, rarely) = (run("always", "0"), run("rarely", "3600"));
    let more = |name| counter(&always, name) - counter(&rarely, name);
    assert!(more("d2h_copies") > 50, "{always}");
    // Two further checkpoints: each waits for its tensors, the update counts and the losses.
    assert!((2..=6).contains(&more("syncs")), "{} further waits", more("syncs"));
}
