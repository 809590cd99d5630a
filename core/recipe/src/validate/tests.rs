//! Validation with small schemas; complete recipes are tested in `tests/recipes`.

use super::*;
use crate::source::Origin;
use serde_json::json;

fn check(value: &Json, schema: Json) -> (Json, Vec<String>) {
    let (tree, problems) = validate(Node::from_default(value).unwrap(), &Schema::from(schema));
    (tree.to_json(), problems.iter().map(|p| p.message.clone()).collect())
}

#[test]
fn defaults_are_filled_in_at_all_levels() {
    let schema = json!({ "properties": {
        "solver": { "default": { "name": "exact" }, "oneOf": [
            { "properties": { "name": { "const": "exact" }, "sweeps": { "type": "integer", "default": 9 } } },
            { "properties": { "name": { "const": "sampled" } } } ] },
        "absent": { "type": ["number", "null"], "default": null } } });
    let (tree, problems) = check(&json!({}), schema);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(tree, json!({ "solver": { "name": "exact", "sweeps": 9 } }));
}

#[test]
fn integers_become_floats_where_the_schema_says_number() {
    let schema = json!({ "properties": { "a": { "type": "number" }, "b": { "type": "integer" } } });
    let (tree, problems) = check(&json!({ "b": 2, "a": 2 }), schema);
    assert!(problems.is_empty());
    assert_eq!(tree.to_string(), r#"{"a":2.0,"b":2}"#);
}

#[test]
fn alternatives_without_a_tag_are_chosen_by_their_keys() {
    let number = json!({ "type": "number" });
    let schema = json!({ "properties": { "lambda": { "anyOf": [
        { "type": "object", "required": ["start", "max"], "additionalProperties": false,
          "properties": { "start": number, "growth": { "type": "number", "default": 1.1 }, "max": number } },
        { "type": "object", "required": ["target_maw"], "additionalProperties": false,
          "properties": { "target_maw": { "type": "number", "maximum": 1.0 } } },
        { "type": "null" } ] } } });
    let lambda = |value: Json| check(&json!({ "lambda": value }), schema.clone());
    assert_eq!(lambda(json!({ "target_maw": 0.8 })).0, json!({ "lambda": { "target_maw": 0.8 } }));
    let (tree, problems) = lambda(json!({ "start": 1, "max": 3 }));
    assert!(problems.is_empty());
    assert_eq!(tree, json!({ "lambda": { "start": 1.0, "growth": 1.1, "max": 3.0 } }));
    assert_eq!(lambda(json!({ "target_maw": 2 })).1, ["`lambda.target_maw` must be at most 1, not 2"]);
    assert_eq!(lambda(json!("x")).1, ["`lambda` must be a table, not a string"]);
}

#[test]
fn every_element_of_a_list_is_checked() {
    let schema = json!({ "properties": { "k": {
        "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "integer", "minimum": 1 } } } });
    let (_, problems) = check(&json!({ "k": [1, 0, "x"] }), schema);
    assert_eq!(
        problems,
        [
            "`k` must have 2 elements, not 3",
            "`k[1]` must be at least 1, not 0",
            "`k[2]` must be a whole number, not a string"
        ]
    );
}

#[test]
fn nan_and_infinity_are_refused_everywhere() {
    let schema = Schema::from(json!({ "properties": { "typed": { "type": "integer" }, "free": {} } }));
    let mut root = Node::from_default(&json!({ "typed": 1, "free": [1] })).unwrap();
    let Value::Table(table) = &mut root.value else { panic!() };
    table.get_mut("typed").unwrap().node.value = Value::Float(f64::NAN);
    let inner = Node { value: Value::Float(f64::INFINITY), origin: Origin::Default };
    table.get_mut("free").unwrap().node.value = Value::Array(vec![inner]);
    let (_, problems) = validate(root, &schema);
    assert_eq!(problems.len(), 2);
}

#[test]
fn every_element_of_a_tuple_is_checked() {
    let schema = json!({ "properties": { "t": {
        "type": "array", "items": [{ "type": "string" }, { "type": "number" }] } } });
    assert_eq!(check(&json!({ "t": ["a", 1] }), schema.clone()).0, json!({ "t": ["a", 1.0] }));
    assert_eq!(check(&json!({ "t": [1, 1] }), schema).1, ["`t[0]` must be a string, not a whole number"]);
}
