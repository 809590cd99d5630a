//! The JSON Schema (draft-07) of recipes, from which everything else is derived.
//!
//! The engine's tables come from the types in `settings`, those of components from the schemas of
//! the components. Validation, defaults, suggestions, listings and completion in editors all read
//! this document, so components from plugins are treated like built-in ones.

use crate::catalogue::{COMPONENT_TABLES, ComponentSchema};
use crate::settings::Recipe;
use crate::sweep_schema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

/// A JSON Schema with its definitions.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Json,
}

impl Schema {
    /// The schema of recipes with all registered components.
    pub fn of_recipes(components: &[ComponentSchema]) -> Self {
        let mut root = SchemaSettings::draft07().into_generator().into_root_schema_for::<Recipe>().to_value();
        let mut definitions = take_object(&mut root, "definitions");
        definitions.shift_remove("Component");
        if let Some(required) = root["required"].as_array_mut() {
            // The loader fills it in from the file name.
            required.retain(|name| name != "name");
        }
        for name in COMPONENT_TABLES {
            let choices = components.iter().filter(|component| component.table == name);
            let choices: Vec<_> = choices.map(|component| alternative(component, &mut definitions)).collect();
            let table = &mut root["properties"][name];
            if let Some(table) = table.as_object_mut() {
                table.shift_remove("allOf");
                table.insert("type".into(), "object".into());
                table.insert("oneOf".into(), choices.into());
            }
        }
        root["properties"]["extends"] = json!({
            "description": "Recipes to extend, as paths relative to this file or names of built-in recipes such as \
                            `curricle:methods/ms`: their settings are the defaults of this one, and later recipes \
                            override earlier ones.",
            "type": ["string", "array"],
            "items": { "type": "string" },
        });
        root["properties"]["sweep"] = sweep_schema::sweep();
        root["properties"]["tune"] = sweep_schema::tune();
        root["definitions"] = Json::Object(definitions);
        Self { root }
    }

    /// The schema of the settings of one component, without its name.
    pub(crate) fn of_component(component: &ComponentSchema) -> Self {
        let mut definitions = Map::new();
        let mut root = alternative(component, &mut definitions);
        if let Some(properties) = root["properties"].as_object_mut() {
            properties.shift_remove("name");
        }
        if let Some(required) = root["required"].as_array_mut() {
            required.retain(|name| name != "name");
        }
        root["definitions"] = Json::Object(definitions);
        Self { root }
    }

    /// The document.
    pub fn as_json(&self) -> &Json {
        &self.root
    }
}

#[cfg(test)]
impl From<Json> for Schema {
    fn from(root: Json) -> Self {
        Self { root }
    }
}

fn take_object(json: &mut Json, key: &str) -> Map<String, Json> {
    match json.as_object_mut().and_then(|map| map.shift_remove(key)) {
        Some(Json::Object(map)) => map,
        _ => Map::new(),
    }
}

/// The table of one component: its name, then its settings. Its definitions move to those of the
/// whole document, under qualified names.
fn alternative(component: &ComponentSchema, definitions: &mut Map<String, Json>) -> Json {
    let mut schema = component.schema.clone();
    let prefix = format!("{}.{}.", component.table, component.name);
    qualify(&mut schema, &prefix);
    for (name, definition) in take_object(&mut schema, "definitions") {
        definitions.insert(format!("{prefix}{name}"), definition);
    }
    let mut properties = Map::new();
    properties.insert("name".into(), json!({ "type": "string", "const": component.name }));
    properties.extend(take_object(&mut schema, "properties"));
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let required: Vec<_> = std::iter::once(Json::from("name")).chain(required).collect();
    json!({
        "description": component.summary,
        "type": "object",
        "properties": properties,
        "required": required,
        // Even if the component does not deny unknown fields: a misspelt setting must not be
        // ignored.
        "additionalProperties": schema.get("additionalProperties").cloned().unwrap_or(Json::Bool(false)),
    })
}

fn qualify(schema: &mut Json, prefix: &str) {
    match schema {
        Json::Object(map) => {
            for (key, value) in map {
                match value {
                    Json::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix("#/definitions/") {
                            *target = format!("#/definitions/{prefix}{name}");
                        }
                    }
                    value => qualify(value, prefix),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| qualify(item, prefix)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_components_are_qualified() {
        let mut schema = json!({ "items": [{ "$ref": "#/definitions/Solver" }], "x": { "$ref": "#/definitions/A" } });
        qualify(&mut schema, "weights.w.");
        assert_eq!(schema["items"][0]["$ref"], "#/definitions/weights.w.Solver");
        assert_eq!(schema["x"]["$ref"], "#/definitions/weights.w.A");
    }

    #[test]
    fn a_recipe_needs_no_name_and_may_extend_others() {
        let schema = Schema::of_recipes(&[]);
        let required = schema.as_json()["required"].as_array().unwrap();
        assert!(!required.contains(&json!("name")) && required.contains(&json!("loss")));
        assert!(schema.as_json()["properties"]["extends"].is_object());
        assert!(schema.as_json()["properties"]["loss"]["oneOf"].is_array());
    }
}
