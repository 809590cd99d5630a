//! `[plugins]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Libraries with additional losses, samplers and weight schemes. A library is arbitrary code: only
/// those named here or with `--plugin` are loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsRecipe {
    /// The library files, relative to the recipe that names them.
    pub paths: Vec<PluginFile>,
}

/// A library file. A recipe may also give only the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginFile {
    /// The file.
    pub path: PathBuf,
    /// Its SHA-256; a file with a different hash is refused.
    pub sha256: String,
}

impl JsonSchema for PluginFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PluginFile".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let path = "The file, relative to the recipe that names it.";
        schemars::json_schema!({
            "description": "A library file, optionally with the SHA-256 it must have.",
            "anyOf": [
                { "description": path, "type": "string", "x-path": true },
                {
                    "type": "object",
                    "properties": {
                        "path": { "description": path, "type": "string", "x-path": true },
                        "sha256": {
                            "description": "Its SHA-256; a file with a different hash is refused.", "type": "string",
                        },
                    },
                    "required": ["path"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
