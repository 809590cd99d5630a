//! The JSON Schema that editors use, judged by an independent validator.

use crate::support::{Printed, Sandbox, find_extension, root};
use jsonschema::Validator;
use serde_json::{Value, json};

fn schema() -> Value {
    Sandbox::new().curricle(["schema"]).assert().success().json()
}

/// What the validator says about a recipe, one line per error.
fn complaints(validator: &Validator, recipe: &Value) -> Vec<String> {
    validator.iter_errors(recipe).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn every_recipe_of_the_repository_is_valid_in_an_editor() {
    let validator = jsonschema::draft7::new(&schema()).unwrap();
    let recipes = find_extension(&root().join("recipes"), "toml");
    assert!(recipes.len() > 50, "{recipes:?}");
    for path in recipes {
        let text = std::fs::read_to_string(&path).unwrap();
        let recipe: Value = toml::from_str(&text).unwrap();
        assert_eq!(complaints(&validator, &recipe), Vec::<String>::new(), "{}", path.display());
        let line = text.lines().next().unwrap_or_default();
        let named = line.strip_prefix("#:schema ").unwrap_or_else(|| panic!("{}: {line}", path.display()));
        assert!(path.parent().unwrap().join(named).is_file(), "{}: {named}", path.display());
    }
}

#[test]
fn mistakes_are_reported_as_what_they_are() {
    let validator = jsonschema::draft7::new(&schema()).unwrap();
    for (recipe, expected) in [
        (json!({ "loss": { "name": "ms", "alhpa": 2.0 } }), "/loss: Additional properties are not allowed ('alhpa'"),
        (json!({ "loss": { "alhpa": 2.0 } }), "/loss: Additional properties are not allowed ('alhpa'"),
        (json!({ "loss": { "name": "ms", "alpha": "high" } }), "/loss/alpha: \"high\" is not of type"),
        (json!({ "loss": { "name": "mss" } }), "/loss/name: \"mss\" is not one of"),
        (json!({ "train": { "epochs": -1 } }), "/train/epochs: -1 is less than the minimum"),
        (json!({ "trian": {} }), "Additional properties are not allowed ('trian'"),
        (json!({ "weights": { "name": "self_paced", "lambda": { "maxx": 1 } } }), "/weights/lambda: Additional"),
    ] {
        let found = complaints(&validator, &recipe);
        assert_eq!(found.len(), 1, "{recipe}: {found:?}");
        assert!(found[0].contains(expected), "{recipe}: {found:?}");
    }
}

#[test]
fn the_schema_next_to_the_recipes_is_current() {
    let stored = std::fs::read_to_string(root().join("recipes/schema.json")).unwrap();
    let current = Sandbox::new().curricle(["schema"]).assert().success().stdout_text();
    assert!(stored == current, "run `target/release/curricle schema > recipes/schema.json`");
}
