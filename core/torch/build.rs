//! Compiles `src/shim.cpp` against the libtorch that torch-sys found.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/shim.cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH_INCLUDE");
    println!("cargo:rerun-if-env-changed=LIBTORCH_CXX11_ABI");
    let lib = PathBuf::from(std::env::var_os("DEP_TCH_LIBTORCH_LIB").expect("torch-sys says where libtorch is"));
    // The same two variables that torch-sys knows.
    let root = std::env::var_os("LIBTORCH_INCLUDE").map(PathBuf::from);
    let root = root.unwrap_or_else(|| lib.parent().unwrap_or(Path::new("/")).to_path_buf());
    let abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .include(root.join("include"))
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .file("src/shim.cpp")
        .compile("curricle_torch");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
}
