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

/// The first keyword of a settings schema that validation would ignore, so that a recipe against the rule would pass.
pub fn unsupported_keyword(schema: &Json) -> Option<String> {
    let Json::Object(rule) = schema else { return None };
    rule.iter().find_map(|(keyword, value)| match keyword.as_str() {
        "properties" | "definitions" => value.as_object()?.values().find_map(unsupported_keyword),
        "items" | "oneOf" | "anyOf" if value.is_array() => value.as_array()?.iter().find_map(unsupported_keyword),
        "items" | "additionalItems" | "additionalProperties" => unsupported_keyword(value),
        // Only references are followed through `allOf`, and those only alone and into the definitions.
        "allOf" => match value.as_array().map(Vec::as_slice) {
            Some([only]) => unsupported_keyword(only),
            _ => Some("allOf".into()),
        },
        "$ref" => (!value.as_str()?.starts_with("#/definitions/")).then(|| format!("$ref: {value}")),
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
        ] {
            assert_eq!(unsupported_keyword(&property(rule)).as_deref(), Some(keyword));
        }
        let undescribed = json!({ "type": "object", "properties": {}, "required": ["b"] });
        assert_eq!(unsupported_keyword(&undescribed).as_deref(), Some("required: \"b\""));
    }
}
