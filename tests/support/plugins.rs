//! Plugins to test with, built as a user would build them.
//!
//! They are built in the project's target folder, whose compiled libtorch binding is reused. Tests build one at
//! a time: they ask for the same plugins in parallel, from threads or from processes.

use super::{libtorch, root, target};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Rust crate of the project that is not a member of its workspace, e.g. `examples/circle-rust`,
/// built with `cargo build --release`; returns the library `lib<name>.so`.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn rust_plugin(folder: impl AsRef<Path>, name: &str) -> PathBuf {
    build_rust_plugin(&root().join(folder), &["build", "--release"]);
    rust_library(name)
}

/// The library that `cargo build --release` makes of a crate of that name.
pub(crate) fn rust_library(name: &str) -> PathBuf {
    target().join(format!("release/lib{name}.so"))
}

/// Runs cargo in a crate outside the workspace, without the network.
///
/// # Panics
/// If it fails, with its message.
pub(crate) fn build_rust_plugin(folder: &Path, command: &[&str]) {
    let _alone = lock();
    // The same versions as the workspace's, and so the same compiled crates.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file can be copied");
    run(Command::new("cargo")
        .args(command)
        .arg("--offline")
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target())
        .env("LIBTORCH", libtorch())
        // As in the workspace's own profile, or libtorch's binding would be compiled once more.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"));
}

/// The C++ example, built with its Makefile.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn circle_cpp() -> PathBuf {
    let (out, _alone) = (out(), lock());
    run(Command::new("make")
        .current_dir(root().join("examples/circle-cpp"))
        .arg(format!("OUT={}", out.display()))
        .arg(format!("LIBTORCH={}", libtorch().display())));
    out.join("libcircle_cpp.so")
}

/// `tests/fixtures/c/raw.c` with one fault, or none if it is empty.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn raw(fault: &str) -> PathBuf {
    let library = out().join(format!("libraw-{fault}.so"));
    let folder = tempfile::tempdir_in(out()).expect("a temporary folder can be made");
    let made = folder.path().join("libraw.so");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-shared", "-fPIC", "-o"]).arg(&made).arg("-I").arg(root().join("core/sdk/include"));
    if fault.is_empty() {
        // The header and a correct library compile without warnings.
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    } else {
        command.args(["-w", &format!("-DFAULT_{fault}")]);
    }
    run(command.arg(root().join("tests/fixtures/c/raw.c")));
    std::fs::rename(made, &library).expect("the library can be renamed");
    library
}

/// `tests/fixtures/c/<name>.cpp`.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn cpp_fixture(name: &str) -> PathBuf {
    let (library, _alone) = (out().join(format!("lib{name}.so")), lock());
    let source = root().join(format!("tests/fixtures/c/{name}.cpp"));
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified()).expect("the file exists");
    let headers = ["curricle.h", "curricle.hpp", "curricle_gradients.hpp"];
    let mut inputs = headers.map(|header| root().join("core/sdk/include").join(header)).to_vec();
    inputs.push(source.clone());
    let built = library.metadata().and_then(|m| m.modified());
    if built.is_ok_and(|built| inputs.iter().all(|input| built > modified(input))) {
        return library;
    }
    let temporary = library.with_extension("tmp");
    run(Command::new("c++")
        .args(["-std=c++20", "-O1", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-o"])
        .arg(&temporary)
        .arg("-I")
        .arg(root().join("core/sdk/include"))
        .arg("-isystem")
        .arg(libtorch().join("include"))
        .arg(source)
        .arg(format!("-L{}", libtorch().join("lib").display()))
        .args(["-ltorch_cpu", "-lc10"]));
    std::fs::rename(temporary, &library).expect("the library can be renamed");
    library
}

/// Held while something is built.
fn lock() -> File {
    let file = File::create(out().join("lock")).expect("the lock file can be made");
    file.lock().expect("the lock file can be locked");
    file
}

fn out() -> PathBuf {
    let out = target().join("fixtures");
    std::fs::create_dir_all(&out).expect("folders can be made");
    out
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{errors}");
}
