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
        .env(
            "CARGO_PROFILE_RELEASE_DEBUG",
            std::env::var("CARGO_PROFILE_RELEASE_DEBUG").unwrap_or("line-tables-only".into()),
        ));
}

/// A C++ example, built with its Makefile; returns the library `lib<name>.so`.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn cpp_example(folder: &str, name: &str) -> PathBuf {
    let (out, _alone) = (out(), lock());
    run(Command::new("make")
        .current_dir(root().join("examples").join(folder))
        .arg(format!("OUT={}", out.display()))
        .arg(format!("LIBTORCH={}", libtorch().display())));
    out.join(format!("lib{name}.so"))
}

/// The Circle loss in C++.
pub(crate) fn circle_cpp() -> PathBuf {
    cpp_example("circle-cpp", "circle_cpp")
}

/// The headers that a library is compiled with.
#[derive(Clone, Copy)]
pub(crate) enum Headers {
    /// Those of the program.
    Current,
    /// Those of the first release of this version of the interface.
    Frozen,
    /// Those of a later program: every record has more fields at its end.
    Newer,
}

impl Headers {
    fn folder(self) -> PathBuf {
        let current = root().join("core/sdk/include");
        match self {
            Self::Current => current,
            Self::Frozen => root().join("tests/fixtures/c/frozen/v2_0"),
            Self::Newer => {
                let folder = out().join("newer");
                std::fs::create_dir_all(&folder).expect("folders can be made");
                for entry in std::fs::read_dir(current).expect("the headers").flatten() {
                    let text = std::fs::read_to_string(entry.path()).expect("a header");
                    let text = if entry.file_name() == "curricle.h" { newer(&text) } else { text };
                    write_if_changed(&folder.join(entry.file_name()), &text);
                }
                folder
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Frozen => "frozen",
            Self::Newer => "newer",
        }
    }
}

/// `curricle.h` with four more fields at the end of every record.
fn newer(header: &str) -> String {
    let (mut text, mut grows) = (String::new(), false);
    for line in header.lines().filter(|line| !line.contains("curricle_layout.h")) {
        grows |= line == "  size_t size;";
        if grows && line.starts_with("} curricle_") {
            text.push_str("  uint64_t newer[4];\n");
            grows = false;
        }
        let is_version = line.starts_with("#define CURRICLE_ABI_MINOR ");
        text.push_str(if is_version { "#define CURRICLE_ABI_MINOR 9u" } else { line });
        text.push('\n');
    }
    assert!(text.matches("newer[4]").count() > 20, "the records of the header are found");
    text
}

fn write_if_changed(path: &Path, text: &str) {
    if !std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        std::fs::write(path, text).expect("a header can be written");
    }
}

/// `tests/fixtures/c/plain.c`: a sampler and a weight scheme in C.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn plain(headers: Headers) -> PathBuf {
    let (library, _alone) = (out().join(format!("libplain-{}.so", headers.name())), lock());
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-shared", "-fPIC"]);
    if matches!(headers, Headers::Newer) {
        command.arg("-DNEWER");
    }
    run(command.arg("-o").arg(&library).arg("-I").arg(headers.folder()).arg(root().join("tests/fixtures/c/plain.c")));
    library
}

/// The example of a loss with a memory in C++, compiled with these headers.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn memory_cpp(headers: Headers) -> PathBuf {
    let source = root().join("examples/cross-batch-memory-cpp/memory.cpp");
    compile_cpp(&format!("memory-{}", headers.name()), &source, &headers.folder())
}

/// `tests/fixtures/c/raw_throws.cpp`, which throws in this function.
///
/// # Panics
/// If it does not build, with the compiler's message.
pub(crate) fn raw_throws(function: &str) -> PathBuf {
    let library = out().join(format!("libraw_throws-{function}.so"));
    run(Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", &format!("-DWHERE={function}"), "-o"])
        .arg(&library)
        .arg("-I")
        .arg(Headers::Current.folder())
        .arg(root().join("tests/fixtures/c/raw_throws.cpp")));
    library
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
    let source = root().join(format!("tests/fixtures/c/{name}.cpp"));
    compile_cpp(name, &source, &Headers::Current.folder())
}

/// Compiles a C++ plugin, unless the library is newer than its source and the headers.
fn compile_cpp(name: &str, source: &Path, headers: &Path) -> PathBuf {
    let (library, _alone) = (out().join(format!("lib{name}.so")), lock());
    let modified = |path: &Path| path.metadata().and_then(|m| m.modified()).expect("the file exists");
    let headers_in = std::fs::read_dir(headers).expect("the headers").flatten().map(|entry| entry.path());
    let mut inputs: Vec<_> = headers_in.chain([source.to_path_buf()]).collect();
    inputs.sort();
    let built = library.metadata().and_then(|m| m.modified());
    if built.is_ok_and(|built| inputs.iter().all(|input| built > modified(input))) {
        return library;
    }
    let temporary = library.with_extension("tmp");
    run(Command::new("c++")
        .args(["-std=c++20", "-O1", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-o"])
        .arg(&temporary)
        .arg("-I")
        .arg(headers)
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
