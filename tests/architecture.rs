//! The structure of the workspace: crates depend only on lower floors, the modules of a crate have no cyclic
//! dependencies, and type names are unique.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Crates with their floors from the bottom up, and whether they may use libtorch. A crate may depend only
/// on crates of lower floors.
const FLOORS: [(&str, usize, Torch); 9] = [
    ("rng", 0, Torch::No),
    ("record", 0, Torch::No),
    ("torch", 0, Torch::Yes),
    ("sdk", 1, Torch::Yes),
    ("recipe", 1, Torch::No),
    ("eval", 2, Torch::Yes),
    ("report", 2, Torch::No),
    ("engine", 3, Torch::Yes),
    ("cli", 4, Torch::Yes),
];

#[derive(PartialEq)]
enum Torch {
    Yes,
    No,
}

/// The names in the `[dependencies]` section of a manifest.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).expect("a manifest");
    let lines = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let names = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty()).map(str::to_string).collect()
}

#[test]
fn crates_depend_on_lower_layers_only() {
    let floor = |name: &str| FLOORS.iter().find(|known| known.0 == name).map(|known| known.1);
    for (name, own, torch) in FLOORS {
        for dependency in dependencies(&root().join("core").join(name).join("Cargo.toml")) {
            let below = dependency.strip_prefix("curricle-").and_then(floor);
            assert!(below.is_none_or(|below| below < own), "`{name}` may not depend on `{dependency}`");
            let is_torch = matches!(dependency.as_str(), "tch" | "torch-sys" | "curricle-sdk" | "curricle-torch");
            assert!(!is_torch || torch == Torch::Yes, "`{name}` must not need libtorch, but depends on `{dependency}`");
        }
    }
    for plugins in ["losses", "samplers", "weights"] {
        for dependency in dependencies(&root().join("plugins").join(plugins).join("Cargo.toml")) {
            let is_ours = dependency.starts_with("curricle-");
            assert!(!is_ours || dependency == "curricle-sdk", "built-in {plugins} depend on `{dependency}`");
        }
    }
}

/// All Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Code without comments and without the tests at the end of the file.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file");
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The names after `crate::` or `super::`, single or in braces.
fn used_from_root(code: &str, root: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        let rest = &code[at + root.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            used.insert(identifier(rest).to_string());
            continue;
        };
        let (mut depth, mut item) = (0, String::new());
        for c in list.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    used.insert(identifier(item.trim()).to_string());
                    item.clear();
                }
                c => item.push(c),
            }
        }
        used.insert(identifier(item.trim()).to_string());
    }
    used
}

/// The top-level modules of a crate, each with those that it uses.
fn modules(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in rust_files(src) {
        let inside = path.strip_prefix(src).expect("below the folder").to_path_buf();
        let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let module = parts[0].trim_end_matches(".rs").to_string();
        if matches!(module.as_str(), "lib" | "main" | "tests" | "fixture")
            || parts.iter().any(|part| part == "tests.rs")
        {
            continue;
        }
        let code = code(&path);
        let mut used = used_from_root(&code, "crate::");
        // `super` of a top-level file, or of a folder's `mod.rs`, is the crate root.
        if parts.len() == 1 || (parts.len() == 2 && parts[1] == "mod.rs") {
            used.extend(used_from_root(&code, "super::"));
        }
        used.remove(&module);
        graph.entry(module).or_default().extend(used);
    }
    let known: BTreeSet<_> = graph.keys().cloned().collect();
    graph.values_mut().for_each(|used| used.retain(|name| known.contains(name)));
    graph
}

/// A path from a module back to itself, if there is one.
fn cycle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        graph: &BTreeMap<String, BTreeSet<String>>,
        at: &str,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        if let Some(start) = path.iter().position(|name| name == at) {
            path.drain(..start);
            path.push(at.to_string());
            return true;
        }
        if !done.insert(at.to_string()) {
            return false;
        }
        path.push(at.to_string());
        let found = graph[at].iter().any(|next| walk(graph, next, path, done));
        if !found {
            path.pop();
        }
        found
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|name| {
        let mut path = Vec::new();
        walk(graph, name, &mut path, &mut done).then_some(path)
    })
}

#[test]
fn modules_of_a_crate_have_no_cycle() {
    let mut crates = 0;
    for group in ["core", "plugins"] {
        for entry in std::fs::read_dir(root().join(group)).expect("a folder").flatten() {
            let src = entry.path().join("src");
            if !src.is_dir() {
                continue;
            }
            crates += 1;
            let graph = modules(&src);
            if let Some(path) = cycle(&graph) {
                panic!("modules of `{}` form a cycle: {}", entry.path().display(), path.join(" -> "));
            }
        }
    }
    assert_eq!(crates, 12, "number of crates checked");
}

#[test]
fn a_cycle_is_found_with_its_path() {
    let graph = |edges: &[(&str, &[&str])]| -> BTreeMap<String, BTreeSet<String>> {
        edges.iter().map(|(from, to)| (from.to_string(), to.iter().map(ToString::to_string).collect())).collect()
    };
    assert_eq!(cycle(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])), None);
    let path = cycle(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])).expect("a cycle");
    assert_eq!(path, ["b", "c", "b"]);
    let used = used_from_root("use crate::{a, b::{c, d}, e};\nuse crate::f::G;", "crate::");
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["a", "b", "e", "f"]);
}

/// Names that several files share because they mean the same: the SDK's types and their C counterparts, the
/// error type of each crate, the arguments of each command.
const SHARED_NAMES: [&str; 15] = [
    "Args",
    "Batch",
    "Command",
    "Component",
    "DataFacts",
    "Epoch",
    "Error",
    "Log",
    "LossInfo",
    "Plugin",
    "Result",
    "Round",
    "Shape",
    "TensorSpec",
    "Target",
];

#[test]
fn a_public_type_name_means_one_thing() {
    let mut places: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for group in ["core", "plugins"] {
        for path in rust_files(&root().join(group)) {
            if !path.components().any(|part| part.as_os_str() == "src") {
                continue;
            }
            for line in code(&path).lines() {
                for keyword in ["pub struct ", "pub enum ", "pub trait ", "pub type "] {
                    if let Some(rest) = line.strip_prefix(keyword) {
                        places.entry(identifier(rest).to_string()).or_default().insert(path.clone());
                    }
                }
            }
        }
    }
    let repeated: Vec<_> =
        places.iter().filter(|(name, paths)| paths.len() > 1 && !SHARED_NAMES.contains(&name.as_str())).collect();
    assert!(repeated.is_empty(), "type names with two meanings: {repeated:#?}");
}
