//! Lets this crate's test programs find libtorch, and remembers the compiler for `doctor`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(lib) = std::env::var("DEP_CURRICLE_SDK_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{lib}");
    }
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok().and_then(|o| String::from_utf8(o.stdout).ok());
    println!("cargo:rustc-env=CURRICLE_RUSTC={}", version.as_deref().map_or("unknown", str::trim));
}
