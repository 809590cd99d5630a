//! Hands the folder of libtorch's libraries on to the crates that depend on this one, as
//! `DEP_CURRICLE_SDK_LIBTORCH_LIB`, and writes it into this crate's own test programs.
//!
//! torch-sys tells only its direct dependents where it found libtorch, and no rpath reaches a
//! program by itself.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(lib) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo:libtorch_lib={lib}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{lib}");
    }
}
