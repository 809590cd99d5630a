//! Runs on CUDA: on the stand-in device, or on a real GPU where there is one and
//! `CURRICLE_TEST_GPU` is set.

use curricle_tests::{Printed, Sandbox, small_recipe};

const METHODS: [(&str, &str); 9] = [
    ("ms", "uniform"),
    ("contrastive", "uniform"),
    ("triplet", "uniform"),
    ("margin", "uniform"),
    ("fastap", "uniform"),
    ("rdml", "uniform"),
    ("proxy_anchor", "uniform"),
    ("snr", "uniform"),
    ("bspml", "balanced_self_paced"),
];

fn on_cuda(sandbox: &Sandbox, args: &[&str]) -> assert_cmd::Command {
    if std::env::var_os("CURRICLE_TEST_GPU").is_some() {
        sandbox.curricle(args.iter().copied())
    } else {
        let mut command = sandbox.curricle_on_fakecuda(args.iter().copied());
        command.env("FAKECUDA_STATS", "1");
        command
    }
}

#[test]
fn every_method_trains_on_cuda() {
    let sandbox = Sandbox::new();
    for (loss, weights) in METHODS {
        sandbox.write("small.toml", small_recipe(loss, weights));
        let run = ["run", "small.toml", "--set", "train.epochs=1", "--device", "cuda", "--json", "--out", loss];
        let result = on_cuda(&sandbox, &run).assert().success().json();
        assert!(result["final_loss"].as_f64().unwrap().is_finite(), "{loss}");
    }
}

#[test]
fn training_on_the_stand_in_device_equals_the_cpu() {
    if std::env::var_os("CURRICLE_TEST_GPU").is_some() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", small_recipe("bspml", "balanced_self_paced"));
    let on = |device: &str| {
        let run = ["run", "small.toml", "--threads", "1", "--device", device, "--json", "--out", device];
        let result = on_cuda(&sandbox, &run).assert().success().json();
        (result["trained"].clone(), result["final_loss"].clone())
    };
    assert_eq!(on("cpu"), on("cuda"));
}
