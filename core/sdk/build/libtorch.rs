//! Compiles C++ against the libtorch that torch-sys found. `core/torch` uses this file too.

use std::path::{Path, PathBuf};

/// The folder of libtorch's libraries, as torch-sys reports it to its direct dependents.
pub(crate) fn lib() -> PathBuf {
    PathBuf::from(std::env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys reports where libtorch is"))
}

/// Compiles `source` into the static library `name` and links it, with libtorch, to this crate.
pub(crate) fn compile(source: &str, name: &str, include: Option<&Path>) {
    println!("cargo:rerun-if-changed={source}");
    println!("cargo:rerun-if-env-changed=LIBTORCH_INCLUDE");
    println!("cargo:rerun-if-env-changed=LIBTORCH_CXX11_ABI");
    let lib = lib();
    // torch-sys reads the same two variables.
    let root = std::env::var_os("LIBTORCH_INCLUDE").map(PathBuf::from);
    let root = root.unwrap_or_else(|| lib.parent().unwrap_or(Path::new("/")).to_path_buf());
    let abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .includes(include)
        .include(root.join("include"))
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .file(source)
        .compile(name);
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
}
