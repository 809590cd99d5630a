//! The JSON Schema keywords that validation checks.

use serde_json::Value as Json;

/// Keywords that are checked, or that only describe.
const KNOWN: [&str; 30] = [
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "definitions",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maximum",
    "maxItems",
    "minimum",
    "minItems",
    "oneOf",
    "properties",
    "readOnly",
    "required",
    "title",
    "type",
    "writeOnly",
];

/// JSON Schema's types.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// The first keyword of a settings schema that validation would ignore, so that a recipe against the rule would pass.
pub fn unsupported_keyword(schema: &Json) -> Option<String> {
    unsupported_in(schema, &schema["definitions"])
}

fn unsupported_in(schema: &Json, definitions: &Json) -> Option<String> {
    let Json::Object(rule) = schema else { return None };
    let unsupported = |schema: &Json| unsupported_in(schema, definitions);
    rule.iter().find_map(|(keyword, value)| match keyword.as_str() {
        "properties" | "definitions" => value.as_object()?.values().find_map(unsupported),
        "items" | "oneOf" | "anyOf" if value.is_array() => value.as_array()?.iter().find_map(unsupported),
        "items" | "additionalItems" | "additionalProperties" => unsupported(value),
        // Only references are followed through `allOf`, and those only alone and into the definitions.
        "allOf" => match value.as_array().map(Vec::as_slice) {
            Some([only]) => unsupported(only),
            _ => Some("allOf".into()),
        },
        "$ref" => {
            let name = value.as_str().and_then(|path| path.strip_prefix("#/definitions/"));
            let exists = name.is_some_and(|name| !definitions[name].is_null());
            (!exists).then(|| format!("$ref: {value}"))
        }
        "type" => {
            let known = |name: &Json| name.as_str().is_some_and(|name| TYPES.contains(&name));
            let all_known = value.as_array().map_or_else(|| known(value), |names| names.iter().all(known));
            (!all_known).then(|| format!("type: {value}"))
        }
        "required" => {
            let known = |name: &Json| name.as_str().is_some_and(|name| !schema["properties"][name].is_null());
            value.as_array()?.iter().find(|name| !known(name)).map(|name| format!("required: {name}"))
        }
        known if KNOWN.contains(&known) || known.starts_with("x-") => None,
        unknown => Some(unknown.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_that_would_be_ignored_are_found_at_any_depth() {
        let property = |rule: Json| json!({ "type": "object", "properties": { "a": rule } });
        assert_eq!(unsupported_keyword(&property(json!({ "type": "number", "minimum": 0, "default": 1 }))), None);
        for (rule, keyword) in [
            (json!({ "type": "string", "pattern": "^a" }), "pattern"),
            (json!({ "not": { "type": "string" } }), "not"),
            (json!({ "type": "array", "items": { "type": "number", "multipleOf": 2 } }), "multipleOf"),
            (json!({ "oneOf": [{ "type": "string", "minLength": 1 }] }), "minLength"),
            (json!({ "allOf": [{ "type": "string" }, { "type": "number" }] }), "allOf"),
            (json!({ "$ref": "#/definitions/nothing" }), r##"$ref: "#/definitions/nothing""##),
            (json!({ "$ref": "#" }), r##"$ref: "#""##),
            (json!({ "type": "integre" }), r#"type: "integre""#),
        ] {
            assert_eq!(unsupported_keyword(&property(rule)).as_deref(), Some(keyword));
        }
        let undescribed = json!({ "type": "object", "properties": {}, "required": ["b"] });
        assert_eq!(unsupported_keyword(&undescribed).as_deref(), Some("required: \"b\""));
    }
}
