//! Compiles the C++ files of `src` against the libtorch that torch-sys found.

#[path = "../sdk/build/libtorch.rs"]
mod libtorch;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../sdk/build/libtorch.rs");
    println!("cargo:rerun-if-changed=src/guarded.h");
    libtorch::compile("src/shim.cpp", "curricle_torch", None);
    libtorch::compile("src/graph.cpp", "curricle_torch_graph", None);
    libtorch::compile("src/surroundings.cpp", "curricle_torch_surroundings", None);
    libtorch::compile("src/recompute.cpp", "curricle_torch_recompute", None);
    libtorch::compile("src/script.cpp", "curricle_torch_script", None);
}
