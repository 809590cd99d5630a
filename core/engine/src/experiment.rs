//! A resolved recipe with its components: everything that defines a run.

use crate::method::Method;
use crate::preflight::{self, WithoutFiles};
use crate::registry::Registry;
use crate::{Error, Result};
use curricle_recipe::{Resolved, Written, settings_of, suggestion};
use curricle_sdk::ComponentKind;
use serde_json::Value as Json;
use std::ops::Deref;
use std::path::Path;

/// Checks the settings of one component, given as `key=value`, and fills in its defaults.
pub fn component_settings(kind: ComponentKind, name: &str, sets: &[String], registry: &Registry) -> Result<Json> {
    let Some(component) = registry.find(kind, name) else {
        let names: Vec<_> = registry.of_kind(kind).map(|entry| entry.component.name).collect();
        let help = suggestion(name, &names, "available:").unwrap_or_default();
        return Err(Error::Usage(format!("there is no {kind} `{name}`; {help}")));
    };
    Ok(settings_of(&component.schema(), sets)?)
}

/// A resolved recipe with its components.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The recipe.
    pub resolved: Resolved,
    /// The components it names.
    pub method: Method,
    /// All available components, including those of the recipe's plugins.
    pub registry: Registry,
}

impl Experiment {
    /// Reads a recipe and everything it extends, applies `--set` arguments, and resolves it; the error lists all
    /// problems.
    pub fn load(path: &Path, sets: &[String], registry: &Registry) -> Result<Self> {
        Self::new(curricle_recipe::load(path, sets, registry)?, registry)
    }

    /// Reads the stored recipe of a run; the files it names need not exist any more.
    pub(crate) fn load_stored(path: &Path, registry: &Registry) -> Result<Self> {
        Self::new(curricle_recipe::load(path, &[], &WithoutFiles(registry.clone()))?, registry)
    }

    fn new(resolved: Resolved, registry: &Registry) -> Result<Self> {
        let mut registry = registry.clone();
        for plugin in &resolved.recipe.plugins.paths {
            registry.add_plugin(&plugin.path, Some(&plugin.sha256))?;
        }
        let method = Method::new(&resolved.recipe, &registry).map_err(|refused| {
            let written = Written { recipe: &resolved.recipe, tree: &resolved.tree };
            Error::Recipe(preflight::refusals(refused, written, &registry).into())
        })?;
        Ok(Self { resolved, method, registry })
    }

    /// Adds the library's path to an error of a component from a plugin.
    pub fn blame(&self, error: Error) -> Error {
        let path = match &error {
            Error::Component { kind, name, .. } => {
                self.registry.plugin_of(*kind, name).map(|plugin| plugin.path.clone())
            }
            _ => None,
        };
        match path {
            Some(path) => Error::Plugin { path, source: Box::new(error) },
            None => error,
        }
    }
}

impl Deref for Experiment {
    type Target = Resolved;

    fn deref(&self) -> &Resolved {
        &self.resolved
    }
}
