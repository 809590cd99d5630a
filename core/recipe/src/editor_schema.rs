//! The JSON Schema of recipes as editors need it.
//!
//! It differs from the schema that `check` uses in three ways. A recipe in an editor is one layer of several: what it
//! extends, or what extends it, provides the rest, so no table and no setting is required. And a misspelt setting is
//! reported as such: with `anyOf`, validators only say that a table matches none of the alternatives, so tables with
//! variants use `if`/`then` on the key that selects the variant. Last, taplo, the language server, overflows its stack
//! on an `allOf` without `properties`, and completes only what the alternatives of an `allOf` list: so references are
//! replaced by what they refer to, and every `allOf` has `properties`, which one of its alternatives repeats.

use crate::form::{Form, types};
use crate::schema::Schema;
use serde_json::{Map, Value as Json, json};

impl Schema {
    /// The schema for completion and validation in editors.
    pub fn for_editors(&self) -> Json {
        let mut root = self.as_json().clone();
        if let Some(root) = root.as_object_mut() {
            root.shift_remove("definitions");
        }
        self.converted(&root, true)
    }

    /// A rule with what it refers to; its own description and default win.
    fn inlined(&self, rule: &Json) -> Json {
        let target = self.follow(rule);
        let mut result = target.clone();
        if let (false, Some(own), Some(map)) = (std::ptr::eq(target, rule), rule.as_object(), result.as_object_mut()) {
            let kept = own.iter().filter(|(key, _)| !matches!(key.as_str(), "$ref" | "allOf"));
            map.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
        }
        result
    }

    /// A rule for editors. Tables in lists are not merged with others, so they are not `partial`.
    fn converted(&self, rule: &Json, partial: bool) -> Json {
        let mut result = self.inlined(rule);
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
            for (key, rule) in self.alternatives(rule, &alternatives, partial) {
                map.entry(key).or_insert(rule);
            }
        }
        result
    }

    fn alternatives(&self, rule: &Json, written: &[Json], partial: bool) -> Map<String, Json> {
        let written: Vec<_> = written.iter().map(|a| self.follow(a)).filter(|a| a["type"] != "null").collect();
        let converted = match self.form(rule) {
            Form::Tagged { key, variants } => self.tagged_for_editors(key, &variants, partial),
            Form::Choice(values) => {
                json!({ "enum": values, "x-taplo": { "docs": { "enumValues": choice_docs(&written) } } })
            }
            Form::Any(alternatives) => self.by_type(&alternatives, partial),
            Form::Plain(_) => written.first().map_or_else(|| json!({}), |other| self.converted(other, partial)),
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
                known.entry(setting.clone()).or_insert_with(|| described(rule));
                allowed.insert(setting.clone(), json!({}));
            }
            cases.push(json!({ "if": { "properties": { key: { "const": name } }, "required": [key] }, "then": then }));
        }
        let anything = json!({ "properties": allowed, "additionalProperties": false });
        cases.push(json!({ "if": { "required": [key] }, "else": anything }));
        cases.push(for_completion(&known));
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
        let settings = by_type.get("object").and_then(|rule| rule["properties"].as_object());
        let settings = for_completion(&settings.cloned().unwrap_or_default());
        let properties = settings["properties"].clone();
        let cases = by_type.into_iter().map(|(name, rule)| json!({ "if": { "type": name }, "then": rule }));
        let cases: Vec<_> = cases.chain([settings]).collect();
        json!({ "type": names, "properties": properties, "allOf": cases })
    }
}

/// The description of a setting, without a rule for its value.
fn described(rule: &Json) -> Json {
    match &rule["description"] {
        Json::Null => json!({}),
        text => json!({ "description": text }),
    }
}

/// An alternative of an `allOf` that names settings and allows every value.
fn for_completion(settings: &Map<String, Json>) -> Json {
    let properties: Map<_, _> = settings.iter().map(|(name, rule)| (name.clone(), described(rule))).collect();
    json!({ "properties": properties })
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
fn choice_docs(written: &[&Json]) -> Vec<Json> {
    let docs = |rule: &&Json| {
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
    fn references_are_replaced_by_what_they_refer_to() {
        let schema = Schema::from(json!({
            "properties": {
                "when": { "description": "When.", "allOf": [{ "$ref": "#/definitions/When" }] },
                "until": { "description": "Until.", "anyOf": [{ "$ref": "#/definitions/When" }, { "type": "null" }] },
                "much": { "description": "Much.", "anyOf": [{ "type": "integer", "description": "x" }, { "type": "null" }] },
            },
            "definitions": { "When": { "description": "A time.", "enum": ["always", "never"] } },
        }));
        let editors = schema.for_editors();
        let when = json!({ "description": "When.", "enum": ["always", "never"] });
        assert_eq!((&editors["properties"]["when"], editors.get("definitions")), (&when, None));
        assert_eq!(editors["properties"]["until"]["enum"], when["enum"]);
        assert_eq!(editors["properties"]["much"], json!({ "description": "Much.", "type": "integer" }));
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
        assert_eq!(editors["allOf"][3], json!({ "properties": { "name": {}, "x": {}, "y": {} } }));
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
        assert_eq!(editors["properties"], json!({ "max": {}, "target": {} }));
        assert_eq!(editors["allOf"][2]["properties"], editors["properties"]);
    }
}
