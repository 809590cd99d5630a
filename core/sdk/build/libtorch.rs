//! Compiles C++ against the libtorch that torch-sys found. `core/torch` uses this file too.

use std::path::{Path, PathBuf};

/// The libtorch that curricle is built for and runs with.
pub(crate) const VERSION: &str = "2.13.0";

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
    let root = root.unwrap_or_else(|| lib.parent().unwrap_or(Path::new("/")).to_path_buf()).join("include");
    check_version(&root);
    let abi = std::env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .includes(include)
        .include(&root)
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .file(source)
        .compile(name);
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
}

/// Stops with headers of another libtorch. torch-sys compares versions only where libtorch has a `build-version`
/// file, which the Python packages do not have.
fn check_version(include: &Path) {
    // In the second place before 2.9.
    let places = ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"];
    let header = places.iter().find_map(|place| std::fs::read_to_string(include.join(place)).ok());
    let found = header.and_then(|text| version(&text));
    if found.as_deref() == Some(VERSION) {
        return;
    }
    let found = found.map_or("no libtorch".into(), |found| format!("libtorch {found}"));
    println!(
        "cargo::error=curricle is built for libtorch {VERSION}, but the headers in `{}` are of {found}; set \
         `LIBTORCH` to the folder of libtorch {VERSION}, e.g. with `scripts/setup`",
        include.display()
    );
    std::process::exit(1);
}

/// The version in libtorch's `version.h`, e.g. `2.13.0`.
fn version(header: &str) -> Option<String> {
    let number = |name: &str| {
        let value = header.lines().find_map(|line| line.strip_prefix(&format!("#define TORCH_VERSION_{name} ")))?;
        value.trim().parse::<u32>().ok()
    };
    Some(format!("{}.{}.{}", number("MAJOR")?, number("MINOR")?, number("PATCH")?))
}
