//! The JSON Schema that editors use, judged by an independent validator.

use crate::support::{Printed, Sandbox, find_extension, root, skip};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// What Python's validator says about these documents, one line per error; `None` if it is not installed.
fn complaints(documents: &[(String, Value)]) -> Option<Vec<String>> {
    let schema = Sandbox::new().curricle(["schema"]).assert().success().json();
    let python = std::env::var_os("CURRICLE_TEST_PYTHON").map_or_else(|| root().join(".venv/bin/python"), Into::into);
    if !python.exists() {
        skip("the schema of recipes", "`scripts/setup --tests` has not been run");
        return None;
    }
    let mut command = Command::new(python);
    command.arg(root().join("tests/python/validate.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut validator = command.spawn().unwrap();
    let given = json!({ "schema": schema, "documents": documents });
    validator.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let output = validator.wait_with_output().unwrap();
    assert!(output.status.success(), "the validator failed; is `jsonschema` missing? run `scripts/setup --tests`");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn every_recipe_of_the_repository_is_valid_in_an_editor() {
    let recipes = find_extension(&root().join("recipes"), "toml");
    assert!(recipes.len() > 50, "{recipes:?}");
    let mut documents = Vec::new();
    for path in recipes {
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().next().unwrap_or_default();
        let schema = line.strip_prefix("#:schema ").unwrap_or_else(|| panic!("{}: {line}", path.display()));
        assert!(path.parent().unwrap().join(schema).is_file(), "{}: {schema}", path.display());
        documents.push((path.display().to_string(), toml::from_str(&text).unwrap()));
    }
    let Some(complaints) = complaints(&documents) else { return };
    assert_eq!(complaints, Vec::<String>::new());
}

/// Taplo follows such an `allOf` again and again until its stack overflows, and completes nothing through references.
#[test]
fn language_servers_survive_the_schema() {
    fn endless<'s>(rule: &'s Value, path: &str, found: &mut Vec<String>) {
        let children: Vec<(String, &'s Value)> = match rule {
            Value::Object(map) => map.iter().map(|(key, rule)| (key.clone(), rule)).collect(),
            Value::Array(rules) => rules.iter().enumerate().map(|(index, rule)| (index.to_string(), rule)).collect(),
            _ => return,
        };
        if rule["allOf"].is_array() && !rule["properties"].is_object() || rule["$ref"].is_string() {
            found.push(path.to_string());
        }
        children.into_iter().for_each(|(key, child)| endless(child, &format!("{path}/{key}"), found));
    }
    let schema = Sandbox::new().curricle(["schema"]).assert().success().json();
    let mut found = Vec::new();
    endless(&schema, "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn mistakes_are_reported_as_what_they_are() {
    let mistakes = [
        (json!({ "loss": { "name": "ms", "alhpa": 2.0 } }), "loss: Additional properties are not allowed ('alhpa'"),
        (json!({ "loss": { "alhpa": 2.0 } }), "loss: Additional properties are not allowed ('alhpa'"),
        (json!({ "loss": { "name": "ms", "alpha": "high" } }), "loss.alpha: 'high' is not of type 'number'"),
        (json!({ "loss": { "name": "mss" } }), "loss.name: 'mss' is not one of"),
        (json!({ "train": { "epochs": -1 } }), "train.epochs: -1 is less than the minimum of 0"),
        (json!({ "trian": {} }), ": Additional properties are not allowed ('trian'"),
        (json!({ "weights": { "name": "self_paced", "lambda": { "maxx": 1 } } }), "weights.lambda: Additional"),
        (json!({ "backbone": { "name": "resnet18", "normalise": "x" } }), "backbone.normalise: 'x' is not one of"),
        (json!({ "sweep": { "methods": [1] } }), "sweep.methods.0: 1 is not of type 'string', 'object'"),
    ];
    let named = mistakes.iter().enumerate().map(|(index, (recipe, _))| (index.to_string(), recipe.clone()));
    let Some(found) = complaints(&named.collect::<Vec<_>>()) else { return };
    assert_eq!(found.len(), mistakes.len(), "one complaint each: {found:#?}");
    for (index, (found, (_, expected))) in found.iter().zip(&mistakes).enumerate() {
        assert!(found.starts_with(&format!("{index}: {expected}")), "{found}");
    }
}

#[test]
fn the_schema_next_to_the_recipes_is_current() {
    let stored = std::fs::read_to_string(root().join("recipes/schema.json")).unwrap();
    let current = Sandbox::new().curricle(["schema"]).assert().success().stdout_text();
    assert!(stored == current, "run `target/release/curricle schema > recipes/schema.json`");
}
