//! What this crate knows about components, which the engine provides.

use crate::problems::Problem;
use crate::refusal::Refusal;
use crate::settings::{PluginFile, Recipe};
use crate::tree::Node;
use serde_json::Value as Json;
use std::path::Path;

/// The tables of a recipe that name a component.
pub(crate) const COMPONENT_TABLES: [&str; 3] = ["loss", "sampler", "weights"];

/// A component as recipes see it.
#[derive(Debug, Clone)]
pub struct ComponentSchema {
    /// The table that names it: `loss`, `sampler` or `weights`.
    pub table: &'static str,
    /// The name recipes use.
    pub name: String,
    /// One line on what it is.
    pub summary: String,
    /// JSON Schema of its settings.
    pub schema: Json,
    /// The library it comes from; `None` for built-in components.
    pub plugin: Option<PluginFile>,
}

/// The components that recipes can name. The engine implements this for its registry.
pub trait Catalogue: Clone {
    /// All components.
    fn components(&self) -> Vec<ComponentSchema>;

    /// The libraries loaded so far, in the order they were added.
    fn plugins(&self) -> Vec<PluginFile>;

    /// Loads a library and adds its components. Adding a library twice changes nothing.
    fn add_plugin(&mut self, path: &Path, pin: Option<&str>) -> Result<(), Refusal>;

    /// Everything that components and networks refuse in an otherwise valid recipe; if nothing, the
    /// learning-rate scale of each parameter group that the loss declares.
    fn examine(&self, written: Written) -> Result<Vec<(String, f64)>, Vec<Problem>>;

    /// SHA-256 of a file that is part of a recipe's identity; `None` if it cannot be read here.
    fn file_hash(&self, _path: &Path) -> Option<String> {
        None
    }

    /// Settings that components and networks accept but advise against.
    fn advise(&self, written: Written) -> Vec<Problem>;
}

/// A typed recipe with the places where its settings were written.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// The settings.
    pub recipe: &'a Recipe,
    /// The same settings with their origins.
    pub tree: &'a Node,
}

impl Written<'_> {
    /// An error at a setting.
    pub fn problem(&self, path: impl Into<String>, message: impl Into<String>) -> Problem {
        let path = path.into();
        Problem::new(&self.tree.origin_of(&path), message).at(path)
    }

    /// A warning at a setting, which shows the setting's value.
    pub fn warning(&self, path: &str, message: &str) -> Problem {
        let shown = match self.tree.find(path) {
            Some(entry) if entry.node.as_table().is_none() => format!("`{path} = {}`", entry.node.to_json()),
            _ => format!("`{path}`"),
        };
        Problem::warning(&self.tree.origin_of(path), format!("{shown}: {message}")).at(path)
    }
}
