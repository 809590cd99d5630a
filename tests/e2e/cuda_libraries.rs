//! The real CUDA libraries without a GPU: they all load, and a driver that cannot be used gives the right message.
//!
//! They take 4 GB, so this needs a machine that has them: `.libtorch` of `scripts/setup --cuda`, or a folder with the
//! packages `torch` and `nvidia` in `CURRICLE_TEST_CUDA_SET`. `scripts/cuda-libraries` fetches them and runs this.

use crate::support::{Printed, Sandbox, optional, root, unwrapped};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the packages `torch` and `nvidia`, if this machine has all of them.
fn cuda_set() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("CURRICLE_TEST_CUDA_SET") {
        let folder = PathBuf::from(folder);
        assert!(folder.join("nvidia/cudnn").is_dir(), "`{}` is not a CUDA set", folder.display());
        return Some(folder);
    }
    let own = root().join(".libtorch");
    if own.join("nvidia/cudnn").is_dir() {
        return own.canonicalize().ok();
    }
    optional("the real CUDA libraries", "`.libtorch` is the set for the CPU; see `scripts/cuda-libraries`");
    None
}

/// Compiles the driver's library of a machine without a GPU, and returns its folder.
fn driver(sandbox: &Sandbox) -> PathBuf {
    let library = sandbox.write("driver/libcuda.so.1", "");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&library);
    let done = compiler.arg(root().join("tests/fixtures/c/libcuda.c")).status().expect("a C compiler");
    assert!(done.success());
    sandbox.path("driver")
}

/// `doctor --device cuda` with the libraries of the set, and first of all those of `folders`.
fn doctor(sandbox: &Sandbox, set: &Path, folders: &[&Path]) -> assert_cmd::Command {
    let folders = folders.iter().map(|folder| folder.to_path_buf()).chain([set.join("torch/lib")]);
    let mut command = sandbox.curricle(["doctor", "--device", "cuda"]);
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
    command
}

#[test]
fn every_library_of_the_cuda_set_loads() {
    let Some(set) = cuda_set() else { return };
    let mut check = Command::new(root().join("scripts/verify-libtorch"));
    let done = check.arg(set.join("torch")).args(["2.13.0", "cuda"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "cuda");
}

#[test]
fn without_a_driver_the_driver_is_named_and_the_libraries_are_fine() {
    let Some(set) = cuda_set() else { return };
    let sandbox = Sandbox::new();
    let printed = doctor(&sandbox, &set, &[]).assert().code(1).stdout_text();
    assert!(printed.contains("CUDA libraries  yes"), "{printed}");
    assert!(printed.contains("there is no NVIDIA driver"), "{printed}");
    for file in ["libcudnn.so.9", "libcublas.so.13"] {
        assert!(printed.contains(file), "{printed}");
    }
    assert!(!printed.contains("instead of libtorch's own"), "{printed}");
}

#[test]
fn a_driver_without_a_device_and_an_old_driver_are_told_apart() {
    let Some(set) = cuda_set() else { return };
    let sandbox = Sandbox::new();
    let driver = driver(&sandbox);
    let none = unwrapped(&doctor(&sandbox, &set, &[&driver]).assert().code(1).stdout_text());
    assert!(none.contains("driver and CUDA libraries are installed, but libtorch sees no device"), "{none}");
    let old = doctor(&sandbox, &set, &[&driver]).env("STUB_CUDA_VERSION", "12020").assert().code(1).stdout_text();
    assert!(unwrapped(&old).contains("the NVIDIA driver is too old: it supports CUDA 12.2 at most"), "{old}");
    // `auto` falls back to the CPU and says why.
    let auto = sandbox.curricle(["doctor"]).env("LD_LIBRARY_PATH", set.join("torch/lib")).assert().success();
    assert!(auto.stdout_text().contains("`auto` selects `cpu`"));
}

#[test]
fn a_foreign_library_is_reported() {
    let Some(set) = cuda_set() else { return };
    let sandbox = Sandbox::new();
    let own = set.join("nvidia/cudnn/lib/libcudnn_graph.so.9");
    let foreign = sandbox.write("foreign/libcudnn_graph.so.9", "");
    std::fs::copy(own, &foreign).unwrap();
    // cuDNN opens its parts at the first convolution; this stands for it.
    let printed = doctor(&sandbox, &set, &[]).env("LD_PRELOAD", &foreign).assert().code(1).stdout_text();
    assert!(unwrapped(&printed).contains("was loaded instead of libtorch's own"), "{printed}");
    assert!(printed.contains("unset `LD_LIBRARY_PATH`"), "{printed}");
}
