//! The registry of built-in and plugin components.

use crate::held::Held;
use crate::plugin::{self, Plugin};
use curricle_recipe::{ComponentSchema, Refusal};
use curricle_sdk::{Component, ComponentKind, Error, Factory, Loss, Result, Sampler, WeightScheme, registered};
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a component comes from.
#[derive(Debug, Clone)]
pub enum ComponentOrigin {
    /// Linked into the program.
    BuiltIn,
    /// Loaded from a library.
    Plugin(Arc<Plugin>),
}

impl fmt::Display for ComponentOrigin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ComponentOrigin::BuiltIn => f.write_str("built in"),
            ComponentOrigin::Plugin(plugin) => write!(f, "in `{}`", plugin.path.display()),
        }
    }
}

/// A component and where it comes from.
#[derive(Debug, Clone)]
pub struct RegisteredComponent {
    /// Its description record.
    pub component: Component,
    /// Where it comes from.
    pub origin: ComponentOrigin,
}

impl RegisteredComponent {
    /// A component that is linked into the program.
    pub fn built_in(component: Component) -> Self {
        Self { component, origin: ComponentOrigin::BuiltIn }
    }

    /// The component as recipes see it.
    pub fn schema(&self) -> ComponentSchema {
        ComponentSchema {
            table: self.component.kind.as_str(),
            name: self.component.name.to_string(),
            summary: self.component.summary.to_string(),
            schema: self.component.factory.schema(),
            plugin: match &self.origin {
                ComponentOrigin::BuiltIn => None,
                ComponentOrigin::Plugin(plugin) => Some(plugin.file()),
            },
        }
    }
}

/// All components that a recipe can use, sorted by kind and name.
#[derive(Debug, Clone)]
pub struct Registry {
    entries: Vec<RegisteredComponent>,
    plugins: Vec<Arc<Plugin>>,
}

impl Registry {
    /// The components linked into the program.
    pub fn built_in() -> Self {
        let entries = registered().into_iter().map(|c| RegisteredComponent::built_in(*c)).collect();
        Self { entries, plugins: Vec::new() }
    }

    /// The built-in components and those of these plugins.
    pub fn with_plugins<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Refusal> {
        let mut registry = Self::built_in();
        for path in paths {
            registry.add_plugin(path.as_ref(), None)?;
        }
        Ok(registry)
    }

    /// Loads a plugin and adds its components. Adding the same plugin again has no effect.
    pub fn add_plugin(&mut self, path: &Path, pin: Option<&str>) -> Result<Arc<Plugin>, Refusal> {
        let plugin = plugin::open(path, pin)?;
        if self.plugins.iter().any(|known| known.sha256 == plugin.sha256) {
            return Ok(plugin);
        }
        for Component { kind, name, .. } in &plugin.components {
            if let Some(other) = self.find(*kind, name) {
                let what = format!("has a {kind} `{name}`, but there is another one {}", other.origin);
                return Err(Refusal::new(path, what, "rename one of them, or remove one of the plugins"));
            }
        }
        let origin = ComponentOrigin::Plugin(Arc::clone(&plugin));
        self.entries.extend(
            plugin.components.iter().map(|&component| RegisteredComponent { component, origin: origin.clone() }),
        );
        self.entries.sort_by_key(|entry| (entry.component.kind, entry.component.name));
        self.plugins.push(Arc::clone(&plugin));
        Ok(plugin)
    }

    /// The loaded plugins, in the order they were added.
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// The plugin that a component comes from, if it is not built in.
    pub(crate) fn plugin_of(&self, kind: ComponentKind, name: &str) -> Option<&Arc<Plugin>> {
        match &self.find(kind, name)?.origin {
            ComponentOrigin::BuiltIn => None,
            ComponentOrigin::Plugin(plugin) => Some(plugin),
        }
    }

    /// All components, sorted by kind and name.
    pub fn iter(&self) -> impl Iterator<Item = &RegisteredComponent> {
        self.entries.iter()
    }

    /// All components of a kind.
    pub(crate) fn of_kind(&self, kind: ComponentKind) -> impl Iterator<Item = &RegisteredComponent> {
        self.entries.iter().filter(move |e| e.component.kind == kind)
    }

    /// The component with this kind and name.
    pub fn find(&self, kind: ComponentKind, name: &str) -> Option<&RegisteredComponent> {
        self.of_kind(kind).find(|e| e.component.name == name)
    }

    /// Creates a loss from settings.
    pub fn loss(&self, name: &str, settings: &Value) -> Result<Held<dyn Loss>> {
        let factory = self.factory(ComponentKind::Loss, name)?;
        Held::create(ComponentKind::Loss, name, || factory.loss(settings))
    }

    /// Creates a sampler from settings.
    pub fn sampler(&self, name: &str, settings: &Value) -> Result<Held<dyn Sampler>> {
        let factory = self.factory(ComponentKind::Sampler, name)?;
        Held::create(ComponentKind::Sampler, name, || factory.sampler(settings))
    }

    /// Creates a weight scheme from settings.
    pub fn weights(&self, name: &str, settings: &Value) -> Result<Held<dyn WeightScheme>> {
        let factory = self.factory(ComponentKind::Weights, name)?;
        Held::create(ComponentKind::Weights, name, || factory.weights(settings))
    }

    fn factory(&self, kind: ComponentKind, name: &str) -> Result<&'static dyn Factory> {
        self.find(kind, name).map(|entry| entry.component.factory).ok_or_else(|| {
            let names: Vec<_> = self.of_kind(kind).map(|e| e.component.name).collect();
            Error::other(format!("there is no {kind} with this name; available: `{}`", names.join("`, `")))
        })
    }
}
