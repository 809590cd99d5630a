//! Puts the recipes of the repository into the program, so that they can be named without a clone.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes").canonicalize().expect("the recipes");
    let mut recipes = Vec::new();
    collect(&folder, &mut recipes);
    recipes.sort();
    let mut code = String::from("&[\n");
    for path in recipes {
        let name = path.strip_prefix(&folder).expect("found below it").with_extension("");
        writeln!(code, "BuiltIn {{ name: {name:?}, text: include_str!({path:?}) }},").expect("memory");
    }
    code.push(']');
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("recipes.rs"), code).expect("the output folder is writable");
}

fn collect(folder: &Path, recipes: &mut Vec<PathBuf>) {
    // Also notices new files.
    println!("cargo:rerun-if-changed={}", folder.display());
    for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, recipes);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            recipes.push(path);
        }
    }
}
