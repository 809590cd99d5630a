//! The recipes that come with the program.

use crate::support::{Printed, Sandbox, root, small_recipe};
use std::path::{Path, PathBuf};

/// All recipes below a folder, without those that only serve as a base.
fn recipes(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true if path.ends_with("base") => {}
            true => found.extend(recipes(&path)),
            false if path.ends_with("base.toml") || path.extension() != Some("toml".as_ref()) => {}
            false => found.push(path),
        }
    }
    found
}

#[test]
fn check_and_explain_mention_inherited_noise() {
    let sandbox = Sandbox::new();
    sandbox.write("base.toml", small_recipe("ms", "uniform"));
    sandbox.write("own.toml", "extends = \"base.toml\"\n[train]\nepochs = 1\n");
    for command in ["check", "explain"] {
        let said = |recipe: &str| sandbox.curricle([command, recipe]).assert().success().stderr_text();
        let inherited = said("own.toml");
        assert!(inherited.contains("label noise `uniform` is inherited from `base.toml`"), "{inherited}");
        assert!(!said("base.toml").contains("inherited"));
        let built_in = sandbox.curricle([command, "base/strokes", "--set", "loss.name=ms"]).assert().success();
        assert!(!built_in.stderr_text().contains("inherited"), "its own noise is not inherited");
    }
}

#[test]
fn very_many_mistakes_are_counted_instead_of_listed() {
    let sandbox = Sandbox::new();
    let unknown: String = (0..5000).map(|i| format!("[table{i}]\nx = 1\n")).collect();
    sandbox.write("many.toml", small_recipe("ms", "uniform") + &unknown);
    let checked = sandbox.curricle(["check", "many.toml"]).assert().code(2);
    assert!(checked.stdout_text().contains("many.toml: 5000 problems"), "{}", checked.stdout_text());
    assert!(checked.stderr_text().contains("and 4900 more problems"));
}

#[test]
fn every_recipe_is_valid_even_without_its_data() {
    let sandbox = Sandbox::new();
    let recipes = recipes(&root().join("recipes"));
    assert!(recipes.len() > 30, "{recipes:?}");
    let mut args = vec!["check", "--no-files", "--json"];
    args.extend(recipes.iter().map(|path| path.to_str().unwrap()));
    let report = sandbox.curricle(args).assert().success().json();
    assert_eq!(report.as_array().unwrap().len(), recipes.len());
}

#[test]
fn the_papers_recipes_describe_the_documented_number_of_runs() {
    let sandbox = Sandbox::new();
    for (name, runs) in [
        ("clean", 36),
        ("clean-literal", 36),
        ("clean-strokes", 18),
        ("noise", 810),
        ("noise-literal", 810),
        ("noise-strokes", 81),
        ("weights", 35),
        ("weights-literal", 35),
        ("weights-strokes", 35),
        ("embedding", 36),
        ("embedding-literal", 36),
        ("embedding-strokes", 36),
    ] {
        let recipe = root().join(format!("recipes/paper/{name}.toml"));
        let report =
            sandbox.curricle(["check", "--no-files", "--json", recipe.to_str().unwrap()]).assert().success().json();
        assert_eq!(report[0]["runs"], runs, "{name}");
    }
}

#[test]
fn published_values_that_cannot_work_give_a_warning() {
    let sandbox = Sandbox::new();
    for (method, setting) in [("ms", "loss.rho"), ("snr", "loss.neg_margin")] {
        let recipe = root().join(format!("recipes/paper/literal/{method}.toml"));
        let report =
            sandbox.curricle(["check", "--no-files", "--json", recipe.to_str().unwrap()]).assert().success().json();
        let problems = report[0]["problems"].as_array().unwrap();
        assert!(problems.iter().any(|problem| problem["setting"] == setting), "{method}: {problems:?}");
    }
}
