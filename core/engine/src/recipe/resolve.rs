//! Resolution of a recipe file into a recipe that can be run.

use super::problems::{Problem, Problems};
use super::resolver::Resolver;
use super::schema::Schema;
use super::settings::{BackboneRecipe, DataRecipe, Recipe};
use super::source::Origin;
use super::tree::{Entry, Node, Table, Value};
use super::{files, hash, merge, plugins, render, sets, sweep, validate};
use crate::error::{Error, Result};
use crate::plugin::Plugin;
use crate::registry::Registry;
use crate::train::groups;
use curricle_sdk::{Component, Kind, Loss, Sampler, WeightScheme, guard};
use serde_json::Value as Json;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A validated recipe with all defaults filled in, and its components.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The settings.
    pub recipe: Recipe,
    /// The components it names.
    pub components: Components,
    /// The settings with the origin of each.
    pub tree: Node,
    /// Warnings that can be given without the data.
    pub warnings: Vec<Problem>,
    /// All available components, including those of the recipe's plugins.
    pub registry: Registry,
}

/// The components a recipe names, with its settings.
#[derive(Clone)]
pub struct Components {
    /// The loss function.
    pub loss: Arc<dyn Loss>,
    /// The batch sampler.
    pub sampler: Arc<dyn Sampler>,
    /// The weight scheme.
    pub weights: Arc<dyn WeightScheme>,
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Components")
    }
}

/// Loads a recipe with everything it extends and applies `--set` arguments; reports all problems.
pub fn load(path: &Path, sets: &[String], registry: &Registry) -> Result<Resolved> {
    let layers = files::layers(path)?;
    Problems::check(sweep::refuse(&layers, path).into_iter().collect())?;
    Resolver::new(registry).draft(path, layers, sets::tables(sets)?)?.finish()
}

/// Validates the settings of one component, given as `key=value` without the component's table,
/// and fills in its defaults.
pub fn component_settings(kind: Kind, name: &str, sets: &[String], registry: &Registry) -> Result<Json> {
    let Some(entry) = registry.find(kind, name) else {
        let names: Vec<_> = registry.of_kind(kind).map(|e| e.component.name).collect();
        let help = super::suggest::help(name, &names, "available:").unwrap_or_default();
        return Err(crate::Error::Usage(format!("there is no {kind} `{name}`; {help}")));
    };
    Ok(settings_of(&entry.component, sets)?)
}

/// Like [`component_settings`], for a given component.
pub fn settings_of(component: &Component, sets: &[String]) -> Result<Json, Problems> {
    let schema = Schema::of_component(component);
    let table = arguments(sets::tables(sets)?, &schema);
    let (tree, problems) = validate::validate_table(
        Node { value: Value::Table(table), origin: Origin::Default },
        &schema,
        component.kind.as_str(),
    );
    Problems::check(problems)?;
    Ok(tree.to_json())
}

impl Resolved {
    /// The recipe with changes to settings that its components do not use, such as the seed and
    /// names for tables.
    pub(super) fn with(&self, changes: impl IntoIterator<Item = (&'static str, Node)>) -> Result<Self> {
        let mut changed = self.clone();
        for (path, node) in changes {
            changed.tree.set(path, node);
        }
        changed.recipe = typed(&changed.tree)?;
        Ok(changed)
    }

    /// The complete recipe as TOML, enough to reproduce the run.
    pub fn to_toml(&self) -> String {
        render::toml(&self.tree)
    }

    /// The complete recipe as TOML, with the origin of every value in a comment.
    pub fn explain(&self) -> String {
        render::explained(&self.tree)
    }

    /// The recipe's hash, 64 hexadecimal digits: of everything but the seed, the name, the description
    /// and the names for tables.
    pub fn hash(&self) -> String {
        let used: Vec<_> = self.plugins_used().into_iter().map(|plugin| plugin.sha256.as_str()).collect();
        hash::identity(&self.tree.to_json(), &used)
    }

    /// The hash without the contents of plugins: equal for runs that differ only in those.
    pub fn hash_without_plugins(&self) -> String {
        hash::identity(&self.tree.to_json(), &[])
    }

    /// The libraries that the recipe's components come from, without those that are loaded but unused.
    pub fn plugins_used(&self) -> Vec<&Arc<Plugin>> {
        let Recipe { loss, sampler, weights, .. } = &self.recipe;
        let names = [(Kind::Loss, &loss.name), (Kind::Sampler, &sampler.name), (Kind::Weights, &weights.name)];
        let mut used: Vec<_> =
            names.into_iter().filter_map(|(kind, name)| self.registry.plugin_of(kind, name)).collect();
        used.dedup_by_key(|plugin| &plugin.sha256);
        used
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

    /// The first 8 digits of the hash, for folder names.
    pub fn short_hash(&self) -> String {
        self.hash()[..8].to_string()
    }
}

pub(super) fn merged(
    path: &Path,
    layers: Vec<files::Layer>,
    sets: Vec<Table>,
    schema: &Schema,
    loaded: &[Arc<Plugin>],
) -> Node {
    let arguments = arguments(sets, schema);
    let mut table = Table::default();
    let mut origin = Origin::Default;
    for layer in layers {
        origin = files::beginning(&layer.source);
        // These two are not inherited: a recipe that extends this one is another recipe.
        table.remove("name");
        table.remove("description");
        merge::merge(&mut table, layer.table, schema, schema.as_json());
    }
    merge::merge(&mut table, arguments, schema, schema.as_json());
    if table.get("name").is_none() {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let node = Node { value: Value::String(stem), origin: Origin::Default };
        table.insert(Entry { key: "name".into(), key_origin: Origin::Default, node });
    }
    plugins::record(&mut table, loaded);
    Node { value: Value::Table(table), origin }
}

/// All `--set` arguments as one table, so that their order matters only for equal keys.
fn arguments(sets: Vec<Table>, schema: &Schema) -> Table {
    let mut all = Table::default();
    for table in sets {
        merge::merge(&mut all, table, schema, schema.as_json());
    }
    all
}

pub(super) fn typed(tree: &Node) -> Result<Recipe, Problems> {
    serde_path_to_error::deserialize(tree.to_json()).map_err(|error| {
        // Rare, since the schema has accepted it.
        let path = error.path().to_string();
        Problem::new(&written(tree, &path), format!("`{path}`: {}", error.inner())).at(path).into()
    })
}

/// Where a setting was written; for a default, the nearest enclosing table that was.
pub(super) fn written(tree: &Node, path: &str) -> Origin {
    let mut path = path;
    loop {
        match tree.find(path) {
            Some(entry) if entry.node.origin.place().is_some() && entry.node.as_table().is_none() => {
                return entry.node.origin.clone();
            }
            Some(Entry { node, .. }) => {
                let name = node.as_table().and_then(|t| t.get("name").or_else(|| t.get("source")));
                if let Some(name) = name.filter(|entry| entry.node.origin.place().is_some()) {
                    return name.node.origin.clone();
                }
            }
            None => {}
        }
        match path.rsplit_once('.') {
            Some((parent, _)) => path = parent,
            None => return Origin::Default,
        }
    }
}

/// Finds settings that are valid in their own tables but not together.
pub(super) fn contradictions(recipe: &Recipe, tree: &Node, problems: &mut Vec<Problem>) {
    let name = recipe.name.as_str();
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0', '\n']) {
        let problem = Problem::new(&written(tree, "name"), format!("`{name}` is not a valid folder name"))
            .at("name")
            .label("names the runs' folder")
            .help("use letters, digits, `-` and `_`");
        problems.push(problem);
    }
    let takes_features = matches!(recipe.backbone, BackboneRecipe::Linear | BackboneRecipe::Mlp { .. });
    if let (DataRecipe::Features(_), false) = (&recipe.data, takes_features) {
        let message = format!("backbone `{}` needs images, but `features` has none", recipe.backbone.name());
        let problem = Problem::new(&written(tree, "backbone.name"), message)
            .at("backbone.name")
            .label("only for images")
            .help("use `linear` or `mlp` for features");
        problems.push(problem);
    }
    if takes_features && !matches!(recipe.data, DataRecipe::Features(_)) {
        let message = format!("backbone `{}` needs features, but the data source has images", recipe.backbone.name());
        let problem = Problem::new(&written(tree, "backbone.name"), message)
            .at("backbone.name")
            .label("only for features")
            .help("use `conv4`, `mobilenet_v2` or another backbone for images");
        problems.push(problem);
    }
    unknown_groups(recipe, tree, problems);
}

/// Finds groups of network parameters that do not exist.
fn unknown_groups(recipe: &Recipe, tree: &Node, problems: &mut Vec<Problem>) {
    let of_the_model = |group: &&String| matches!(group.split('.').next(), Some("backbone" | "embedding"));
    let groups: Vec<_> = recipe.groups.keys().filter(of_the_model).filter(|group| group.contains('.')).collect();
    if groups.is_empty() {
        return;
    }
    let Ok(names) = crate::backbone::tensor_names(&recipe.backbone, &recipe.embedding) else { return };
    let known = groups::beginnings(names.iter().map(String::as_str));
    for group in groups.into_iter().filter(|group| !known.contains(*group)) {
        let origin = tree.as_table().and_then(|table| table.get("groups")).and_then(|entry| entry.node.as_table());
        let origin =
            origin.and_then(|table| table.get(group)).map(|entry| entry.key_origin.clone()).unwrap_or_default();
        let message = format!("backbone `{}` has no parameter group `{group}`", recipe.backbone.name());
        problems.push(
            Problem::new(&origin, message)
                .at(format!("groups.{group}"))
                .label("no such parameter group")
                .help(groups::suggestion(group, &known)),
        );
    }
}

pub(super) fn components(recipe: &Recipe, tree: &Node, registry: &Registry) -> Result<Components, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut refuse = |kind: Kind, name: &str, error: curricle_sdk::Error| {
        let (path, message) = match error {
            curricle_sdk::Error::Setting { path, message } => {
                (format!("{kind}.{path}"), format!("`{kind}.{path}`: {message}"))
            }
            other => {
                let plugin = registry.plugin_of(kind, name).map(|p| format!("plugin `{}`: ", p.path.display()));
                (format!("{kind}.name"), format!("{}{kind} `{name}`: {other}", plugin.unwrap_or_default()))
            }
        };
        problems.push(Problem::new(&written(tree, &path), message).at(path).label(format!("refused by `{name}`")));
    };
    let Recipe { loss, sampler, weights, .. } = recipe;
    let made = (
        guard(|| registry.loss(&loss.name, &loss.settings)).map_err(|e| refuse(Kind::Loss, &loss.name, e)),
        guard(|| registry.sampler(&sampler.name, &sampler.settings))
            .map_err(|e| refuse(Kind::Sampler, &sampler.name, e)),
        guard(|| registry.weights(&weights.name, &weights.settings))
            .map_err(|e| refuse(Kind::Weights, &weights.name, e)),
    );
    match made {
        (Ok(loss), Ok(sampler), Ok(weights)) => {
            Ok(Components { loss: loss.into(), sampler: sampler.into(), weights: weights.into() })
        }
        _ => Err(problems),
    }
}
