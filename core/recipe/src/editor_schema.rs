//! The JSON Schema of recipes as editors need it.
//!
//! It differs from the schema that `check` uses in two ways. A recipe in an editor is one layer of several: what it
//! extends, or what extends it, provides the rest, so no table and no setting is required. And a misspelt setting is
//! reported as such: with `anyOf`, validators only say that a table matches none of the alternatives, so tables with
//! variants use `if`/`then` on the key that selects the variant.

use crate::form::{Form, types};
use crate::schema::Schema;
use serde_json::{Map, Value as Json, json};

impl Schema {
    /// The schema for completion and validation in editors.
    pub fn for_editors(&self) -> Json {
        let mut root = self.as_json().clone();
        if let Some(definitions) = root.get_mut("definitions").and_then(Json::as_object_mut) {
            definitions.values_mut().for_each(|rule| *rule = self.converted(rule, true));
        }
        self.converted(&root, true)
    }

    /// A rule for editors. Tables in lists are not merged with others, so they are not `partial`.
    fn converted(&self, rule: &Json, partial: bool) -> Json {
        let mut result = rule.clone();
        let Some(map) = result.as_object_mut() else { return result };
        if partial {
            map.shift_remove("required");
        }
        // TOML has no null.
        if map.get("default").is_some_and(Json::is_null) {
            map.shift_remove("default");
        }
        if let Some(Json::Array(names)) = map.get_mut("type") {
            names.retain(|name| name != "null");
        }
        if let Some(properties) = map.get_mut("properties").and_then(Json::as_object_mut) {
            properties.values_mut().for_each(|rule| *rule = self.converted(rule, partial));
        }
        if let Some(others) = map.get_mut("additionalProperties") {
            *others = self.converted(others, partial);
        }
        if let Some(items) = map.get_mut("items") {
            *items = self.converted(items, false);
        }
        let written = map.shift_remove("oneOf").or_else(|| map.shift_remove("anyOf"));
        if let Some(Json::Array(alternatives)) = written {
            map.extend(self.alternatives(rule, &alternatives, partial));
        }
        result
    }

    fn alternatives(&self, rule: &Json, written: &[Json], partial: bool) -> Map<String, Json> {
        let converted = match self.form(rule) {
            Form::Tagged { key, variants } => self.tagged_for_editors(key, &variants, partial),
            Form::Choice(values) => {
                json!({ "enum": values, "x-taplo": { "docs": { "enumValues": choice_docs(written) } } })
            }
            Form::Any(alternatives) => self.by_type(&alternatives, partial),
            Form::Plain(_) => {
                let others = written.iter().filter(|a| a["type"] != "null");
                json!({ "allOf": others.map(|a| self.converted(a, partial)).collect::<Vec<_>>() })
            }
        };
        match converted {
            Json::Object(map) => map,
            _ => Map::new(),
        }
    }

    /// One of several tables: which one depends on `key`, or is not known if another recipe sets it.
    fn tagged_for_editors(&self, key: &str, variants: &[(&str, &Json)], partial: bool) -> Json {
        let names: Vec<_> = variants.iter().map(|(name, _)| *name).collect();
        let docs: Vec<_> = variants.iter().map(|(_, rule)| rule["description"].clone()).collect();
        let mut known = Map::new();
        known.insert(key.into(), json!({ "enum": names, "x-taplo": { "docs": { "enumValues": docs } } }));
        let mut cases = Vec::new();
        let mut allowed = Map::new();
        for (name, rule) in variants {
            let mut then = self.converted(rule, partial);
            if let Some(tag) = then["properties"].get_mut(key) {
                *tag = json!({});
            }
            for (setting, rule) in then["properties"].as_object().into_iter().flatten() {
                // Here for completion, with the first variant's description; `then` has the rule.
                known.entry(setting.clone()).or_insert_with(|| json!({ "description": rule["description"] }));
                allowed.insert(setting.clone(), json!({}));
            }
            cases.push(json!({ "if": { "properties": { key: { "const": name } }, "required": [key] }, "then": then }));
        }
        let anything = json!({ "properties": allowed, "additionalProperties": false });
        cases.push(json!({ "if": { "required": [key] }, "else": anything }));
        json!({ "type": "object", "properties": known, "allOf": cases })
    }

    /// Alternatives that are distinguished by their type; several tables are joined to one.
    fn by_type(&self, alternatives: &[&Json], partial: bool) -> Json {
        let mut by_type: Map<String, Json> = Map::new();
        for alternative in alternatives {
            let names = match self.form(alternative) {
                Form::Plain(rule) => types(rule),
                Form::Choice(_) => vec!["string"],
                Form::Tagged { .. } | Form::Any(_) => vec!["object"],
            };
            let rule = self.converted(alternative, partial);
            for name in names {
                match by_type.get_mut(name) {
                    Some(first) => join(first, &rule),
                    None => drop(by_type.insert(name.to_string(), rule.clone())),
                }
            }
        }
        let names: Vec<_> = by_type.keys().cloned().collect();
        let cases: Vec<_> =
            by_type.into_iter().map(|(name, rule)| json!({ "if": { "type": name }, "then": rule })).collect();
        json!({ "type": names, "allOf": cases })
    }
}

fn join(table: &mut Json, other: &Json) {
    let settings = other["properties"].as_object().cloned().unwrap_or_default();
    if let Some(properties) = table["properties"].as_object_mut() {
        properties.extend(settings);
    }
    if let Some(table) = table.as_object_mut() {
        table.shift_remove("required");
    }
}

/// The description of each choice; an `enum` describes all of its values at once.
fn choice_docs(written: &[Json]) -> Vec<Json> {
    let docs = |rule: &Json| {
        let count = rule["enum"].as_array().map_or(1, Vec::len);
        vec![rule["description"].clone(); count]
    };
    written.iter().flat_map(docs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_required_but_in_lists() {
        let schema = Schema::from(json!({
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": { "type": ["string", "null"], "default": null },
                "list": { "items": { "required": ["path"], "properties": { "path": {} } } },
            },
        }));
        let editors = schema.for_editors();
        assert_eq!(editors.get("required"), None);
        assert_eq!(editors["properties"]["name"], json!({ "type": ["string"] }));
        assert_eq!(editors["properties"]["list"]["items"]["required"], json!(["path"]));
    }

    #[test]
    fn variants_are_selected_by_their_name() {
        let schema = Schema::from(json!({ "oneOf": [
            { "properties": { "name": { "const": "a" }, "x": { "type": "integer" } }, "additionalProperties": false },
            { "properties": { "name": { "const": "b" }, "y": {} }, "additionalProperties": false },
        ] }));
        let editors = schema.for_editors();
        assert_eq!(editors["properties"]["name"]["enum"], json!(["a", "b"]));
        let first = &editors["allOf"][0];
        assert_eq!(first["if"], json!({ "properties": { "name": { "const": "a" } }, "required": ["name"] }));
        assert_eq!(first["then"]["properties"]["x"], json!({ "type": "integer" }));
        let inherited = &editors["allOf"][2]["else"]["properties"];
        assert_eq!(inherited.as_object().unwrap().keys().collect::<Vec<_>>(), ["name", "x", "y"]);
    }

    #[test]
    fn alternatives_of_different_types_are_selected_by_type() {
        let schema = Schema::from(json!({ "anyOf": [
            { "type": "number", "minimum": 0 },
            { "type": "object", "properties": { "max": {} }, "required": ["max"] },
            { "type": "object", "properties": { "target": {} }, "required": ["target"] },
        ] }));
        let editors = schema.for_editors();
        assert_eq!(editors["type"], json!(["number", "object"]));
        assert_eq!(editors["allOf"][1]["then"]["properties"], json!({ "max": {}, "target": {} }));
        assert_eq!(editors["allOf"][1]["then"].get("required"), None);
    }
}
