//! `curricle doctor`: what it finds, with and without a (stand-in) CUDA device.

use crate::support::{Printed, Sandbox, skip};
use predicates::str::contains;
use serde_json::json;

/// Whether this machine has an NVIDIA driver.
fn has_driver(report: &serde_json::Value) -> bool {
    report["cuda"]["driver"] == json!(true)
}

#[test]
fn the_cpu_works_and_the_versions_match() {
    let sandbox = Sandbox::new();
    let report = sandbox.curricle(["doctor", "--json"]).assert().code(0).json();
    assert_eq!(report["format"], 1);
    assert_eq!(report["ok"], true);
    assert_eq!(report["libtorch"]["found"], report["libtorch"]["wanted"]);
    assert_eq!(report["devices"][0], "cpu");
    assert_eq!(report["disk"]["folder"], json!(sandbox.path("").canonicalize().unwrap().to_str().unwrap()));
}

#[test]
fn the_text_report_says_the_same() {
    let sandbox = Sandbox::new();
    sandbox.curricle(["doctor"]).assert().code(0).stdout(contains("(required: 2.13.0)")).stdout(contains("cpu"));
}

#[test]
fn a_missing_driver_is_reported_when_cuda_is_required() {
    let sandbox = Sandbox::new();
    let report = sandbox.curricle(["doctor", "--json"]).assert().json();
    if has_driver(&report) {
        return skip("`doctor` without an NVIDIA driver", "this machine has one");
    }
    assert_eq!(report["auto"], "cpu");
    let failed = sandbox.curricle(["doctor", "--device", "cuda", "--json"]).assert().code(1);
    let problem = &failed.json()["problems"][0];
    assert_eq!(problem["severity"], "broken");
    assert!(problem["what"].as_str().unwrap().contains("there is no NVIDIA driver"), "{problem}");
    assert!(problem["fix"].as_str().unwrap().contains("`--device cpu`"), "{problem}");
}

#[test]
fn a_device_that_does_not_exist_is_bad_usage() {
    let refused = Sandbox::new().curricle(["doctor", "--device", "gpu"]).assert().code(2);
    refused.stderr(contains("use `auto`, `cpu`, `cuda` or `cuda:N`"));
}

#[test]
fn a_thread_count_that_is_not_a_number_is_reported_as_broken() {
    let broken = Sandbox::new().curricle(["doctor"]).env("OMP_NUM_THREADS", "many").assert().code(1);
    broken.stdout(contains("`OMP_NUM_THREADS` is `many`"));
}

#[test]
fn the_stand_in_cuda_device_is_found_and_preferred() {
    let report = Sandbox::new().curricle_on_fakecuda(["doctor", "--json", "--device", "cuda"]).assert().code(0).json();
    assert_eq!(report["devices"], json!(["cpu", "cuda:0"]));
    assert_eq!(report["auto"], "cuda:0");
    assert_eq!(report["cuda"]["libraries"], true);
}

#[test]
fn a_device_number_out_of_range_says_how_many_there_are() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.curricle_on_fakecuda(["doctor", "--device", "cuda:2"]);
    let refused = command.env("FAKECUDA_DEVICES", "2").assert().code(1);
    refused.stdout(contains("there is no CUDA device 2, only 2 devices")).stdout(contains("from `cuda:0` to `cuda:1`"));
}
