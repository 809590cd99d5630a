//! Reading a schema: which form a value must have, and a description of it in words.

use crate::schema::Schema;
use crate::suggest::quoted;
use serde_json::Value as Json;

/// The form a schema asks for, with references resolved and without `null` (TOML has none).
#[derive(Debug)]
pub enum Form<'s> {
    /// One of several tables, distinguished by the value of one key.
    Tagged {
        /// The key, e.g. `name`.
        key: &'s str,
        /// The key's value and the table's schema, for each variant.
        variants: Vec<(&'s str, &'s Json)>,
    },
    /// One of these values.
    Choice(Vec<&'s Json>),
    /// Any of several forms, distinguished by trying each.
    Any(Vec<&'s Json>),
    /// A schema without alternatives, with `type`, `properties` and so on.
    Plain(&'s Json),
}

/// Limit on chained references, so that a schema with cyclic references ends.
const MAX_REFERENCES: usize = 32;

impl Schema {
    /// The form of a part of this schema.
    pub fn form<'s>(&'s self, rule: &'s Json) -> Form<'s> {
        let rule = self.follow(rule);
        if let Some(value) = rule.get("const") {
            return Form::Choice(vec![value]);
        }
        if let Some(values) = rule.get("enum").and_then(Json::as_array) {
            return Form::Choice(values.iter().filter(|v| !v.is_null()).collect());
        }
        let Some(alternatives) = rule.get("oneOf").or_else(|| rule.get("anyOf")).and_then(Json::as_array) else {
            return Form::Plain(rule);
        };
        let alternatives: Vec<_> =
            alternatives.iter().map(|a| self.follow(a)).filter(|a| a.get("type") != Some(&"null".into())).collect();
        // A kind with a single component is still a tagged table.
        if let Some((key, variants)) = tagged(&alternatives) {
            return Form::Tagged { key, variants };
        }
        if let [only] = alternatives.as_slice() {
            return self.form(only);
        }
        let choices: Option<Vec<_>> = alternatives
            .iter()
            .map(|a| match self.form(a) {
                Form::Choice(values) => Some(values),
                _ => None,
            })
            .collect();
        match choices {
            Some(values) if !values.is_empty() => Form::Choice(values.concat()),
            // No component of this kind is registered: a tagged table without variants.
            _ if alternatives.is_empty() => Form::Tagged { key: "name", variants: Vec::new() },
            _ => Form::Any(alternatives),
        }
    }

    /// What a reference refers to; other rules are returned as they are.
    pub(crate) fn follow<'s>(&'s self, mut rule: &'s Json) -> &'s Json {
        for _ in 0..MAX_REFERENCES {
            if let Some(name) = rule["$ref"].as_str().and_then(|r| r.strip_prefix("#/definitions/")) {
                rule = &self.as_json()["definitions"][name];
            } else if let Some([only]) = rule["allOf"].as_array().map(Vec::as_slice) {
                rule = only;
            } else {
                break;
            }
        }
        rule
    }

    /// What a value must be, in words: "a number", "a list of whole numbers", "one of `a`, `b`".
    pub fn describe(&self, rule: &Json) -> String {
        match self.form(rule) {
            Form::Tagged { .. } => "a table".into(),
            Form::Choice(values) => format!("one of {}", quoted_values(&values)),
            Form::Any(alternatives) => {
                let mut all: Vec<_> = alternatives.iter().map(|a| self.describe(a)).collect();
                all.dedup();
                all.join(" or ")
            }
            Form::Plain(rule) => {
                let all: Vec<_> = types(rule).into_iter().map(|t| self.describe_type(t, rule)).collect();
                if all.is_empty() { "any value".into() } else { all.join(" or ") }
            }
        }
    }

    fn describe_type(&self, name: &str, rule: &Json) -> String {
        let text = match name {
            "string" if rule["x-path"] == true => "a path",
            "string" => "a string",
            "integer" => "a whole number",
            "number" => "a number",
            "boolean" => "`true` or `false`",
            "array" => {
                let items = rule.get("items").filter(|items| items.is_object()).map(|items| self.describe(items));
                return match items.as_deref().and_then(plural) {
                    Some(items) => format!("a list of {items}"),
                    None => "a list".into(),
                };
            }
            _ => "a table",
        };
        text.into()
    }
}

/// The tag of alternative tables: a property that is a constant in each of them.
fn tagged<'s>(alternatives: &[&'s Json]) -> Option<(&'s str, Vec<(&'s str, &'s Json)>)> {
    let tag = |alternative: &'s Json, key: &str| alternative["properties"][key]["const"].as_str();
    let (key, _) = alternatives.first()?["properties"].as_object()?.iter().find(|(_, p)| p["const"].is_string())?;
    let variants = alternatives.iter().map(|&a| Some((tag(a, key)?, a))).collect::<Option<Vec<_>>>()?;
    Some((key.as_str(), variants))
}

/// The types a plain schema allows, without `null`.
pub(crate) fn types(rule: &Json) -> Vec<&str> {
    let all = match &rule["type"] {
        Json::String(one) => vec![one.as_str()],
        Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
        _ if rule.get("properties").is_some() => vec!["object"],
        _ => Vec::new(),
    };
    all.into_iter().filter(|&t| t != "null").collect()
}

/// JSON values as a user would write them, in backticks.
pub(crate) fn quoted_values(values: &[&Json]) -> String {
    let texts: Vec<_> = values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), String::from)).collect();
    quoted(texts.iter().map(String::as_str))
}

fn plural(singular: &str) -> Option<String> {
    singular.strip_prefix("a ").map(|noun| format!("{noun}s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_ignore_references_and_nulls() {
        let schema = Schema::from(json!({ "definitions": {
            "When": { "oneOf": [{ "const": "always" }, { "enum": ["never", "ends"] }] },
            "Solver": { "oneOf": [
                { "properties": { "name": { "const": "exact" } } },
                { "properties": { "name": { "const": "sampled" }, "step": {} } } ] } } }));
        let when = json!({ "anyOf": [{ "$ref": "#/definitions/When" }, { "type": "null" }] });
        assert!(matches!(schema.form(&when), Form::Choice(values) if values.len() == 3));
        assert_eq!(schema.describe(&when), "one of `always`, `never`, `ends`");
        let solver = json!({ "description": "x", "allOf": [{ "$ref": "#/definitions/Solver" }] });
        let Form::Tagged { key, variants } = schema.form(&solver) else { panic!("not tagged") };
        assert_eq!((key, variants[1].0), ("name", "sampled"));
    }

    #[test]
    fn cyclic_references_end() {
        let schema = Schema::from(json!({ "definitions": { "A": { "$ref": "#/definitions/A" } } }));
        assert_eq!(schema.describe(&json!({ "$ref": "#/definitions/A" })), "any value");
    }

    #[test]
    fn types_are_described_in_words() {
        let schema = Schema::from(json!({}));
        let say = |rule| schema.describe(&rule);
        assert_eq!(say(json!({ "type": ["integer", "null"] })), "a whole number");
        assert_eq!(say(json!({ "type": "array", "items": { "type": "number" } })), "a list of numbers");
        assert_eq!(say(json!({ "type": ["string", "array"] })), "a string or a list");
    }
}
