//! Compiles the C++ files of `src`, and passes the folder of libtorch's libraries on to the crates that depend on
//! this one, as `DEP_CURRICLE_SDK_LIBTORCH_LIB`.
//!
//! torch-sys reports the folder to its direct dependents only, and an rpath does not reach the programs built
//! from them.

mod libtorch;

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rustc-env=CURRICLE_LIBTORCH={}", libtorch::VERSION);
    // docs.rs has no libtorch, and documentation needs none.
    if std::env::var_os("CARGO_FEATURE_DOC_ONLY").is_some() {
        return;
    }
    println!("cargo:rerun-if-changed=include/curricle_gradients.hpp");
    println!("cargo:libtorch_lib={}", libtorch::lib().display());
    libtorch::compile("src/gradients/with_gradients.cpp", "curricle_sdk_gradients", Some(Path::new("include")));
    libtorch::compile("src/mm.cpp", "curricle_sdk_mm", None);
    libtorch::compile("src/abi/host/protect.cpp", "curricle_sdk_protect", None);
}
