//! `[loss]`, `[sampler]` and `[weights]`, described by the components themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A component's name and settings. In a recipe, both are in one table.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentRecipe {
    /// The component's name.
    pub name: String,
    /// Its settings, defaults filled in, as a JSON object without `name`.
    pub settings: Value,
}

impl Serialize for ComponentRecipe {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serde_json::Map::new();
        table.insert("name".into(), self.name.clone().into());
        if let Value::Object(settings) = &self.settings {
            table.extend(settings.clone());
        }
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ComponentRecipe {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = serde_json::Map::deserialize(deserializer)?;
        match table.shift_remove("name") {
            Some(Value::String(name)) => Ok(Self { name, settings: Value::Object(table) }),
            _ => Err(serde::de::Error::missing_field("name")),
        }
    }
}

impl JsonSchema for ComponentRecipe {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Component".into()
    }

    // The loader replaces this with one alternative per registered component.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "required": ["name"] })
    }
}
