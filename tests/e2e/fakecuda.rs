//! The stand-in device itself: it catches what a GPU would do wrong without a message; see `tests/fakecuda/selftest.cpp`.

use crate::support::{counter, fakecuda, target};
use std::process::{Command, Output};

/// A case of the self-test.
fn case(name: &str, variables: &[(&str, &str)]) -> Output {
    let library = fakecuda();
    let mut command = Command::new(target().join("fakecuda/selftest"));
    command.arg(name).env("LD_PRELOAD", library).env("FAKECUDA_STATS", "1").env_remove("CUBLAS_WORKSPACE_CONFIG");
    command.envs(variables.iter().copied()).output().expect("the self-test starts")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn changing_the_source_of_a_copy_in_flight_ends_the_process() {
    let changed = case("changed_source", &[]);
    assert!(!changed.status.success());
    assert!(errors(&changed).contains("changed before the device had read it"), "{}", errors(&changed));
    assert_eq!(printed(&case("source_after_waiting", &[])), "64");
}

#[test]
fn a_copy_to_the_host_arrives_when_the_host_waits() {
    assert_eq!(printed(&case("early_read", &[])), "nothing 64");
}

#[test]
fn freed_pinned_memory_is_poisoned_and_watched() {
    assert_eq!(printed(&case("freed_read", &[])), "db");
    let written = case("freed_write", &[]);
    assert!(!written.status.success());
    assert!(errors(&written).contains("written to after it had been freed"), "{}", errors(&written));
}

#[test]
fn operators_without_a_deterministic_kernel_fail_in_deterministic_mode() {
    let failed = printed(&case("nondeterministic", &[]));
    assert!(failed.contains("adaptive_max_pool2d_backward") && failed.contains("deterministic"), "{failed}");
    assert!(printed(&case("workspace", &[])).contains("CUBLAS_WORKSPACE_CONFIG"));
    assert_eq!(printed(&case("workspace", &[("CUBLAS_WORKSPACE_CONFIG", ":4096:8")])), "8");
}

#[test]
fn tf32_keeps_ten_bits_and_is_counted() {
    let rounded = case("tf32", &[("FAKECUDA_TF32", "1")]);
    assert_eq!(printed(&rounded), "1.0000000 1.0002441");
    assert_eq!(counter(&errors(&rounded), "tf32_products"), 1);
    assert_eq!(printed(&case("tf32", &[])), "1.0002441 1.0002441");
}

#[test]
fn parallel_regions_count_on_the_host_only() {
    let regions = |name| counter(&errors(&case(name, &[])), "host_parallel");
    // Setting the number of threads is one.
    assert_eq!(regions("parallel_device"), 1);
    assert!(regions("parallel_host") > 1);
}
