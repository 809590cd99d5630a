//! Resolved recipes: checked, with every default filled in.

use crate::problems::{Problem, Problems};
use crate::settings::{PluginFile, Recipe};
use crate::source::Place;
use crate::tree::{Node, Value};
use crate::{files, hash, render};
use curricle_record::{RunFolder, RunLabels, default_method, leaves};
use std::path::Path;

/// A checked recipe with every default filled in.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The settings.
    pub recipe: Recipe,
    /// The settings with the origin of each.
    pub tree: Node,
    /// Settings that are valid but doubtful, as far as the recipe alone shows.
    pub warnings: Vec<Problem>,
    /// The libraries that its components come from, without loaded libraries that it does not use.
    pub plugins_used: Vec<PluginFile>,
}

impl Resolved {
    /// The recipe with changes to settings that its components do not use, such as the seed and
    /// names for tables.
    pub(crate) fn with(&self, changes: impl IntoIterator<Item = (&'static str, Node)>) -> Result<Self, Problems> {
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
        let used: Vec<_> = self.plugins_used.iter().map(|plugin| plugin.sha256.as_str()).collect();
        hash::identity(&self.tree.to_json(), &used)
    }

    /// The first 8 digits of the hash, for folder names and lists.
    pub fn short_hash(&self) -> String {
        self.hash()[..8].to_string()
    }

    /// The method's name in tables.
    pub fn method(&self) -> String {
        let Recipe { method, loss, weights, .. } = &self.recipe;
        method.clone().unwrap_or_else(|| default_method(&loss.name, &weights.name))
    }

    /// The folder of its run below `out`.
    pub fn folder(&self, out: &Path) -> RunFolder {
        let Recipe { name, case, seed, .. } = &self.recipe;
        let labels = RunLabels { recipe: name, method: &self.method(), case: case.as_deref().unwrap_or_default() };
        RunFolder::below(out, &labels, &self.hash(), *seed)
    }

    /// A sentence about label noise that comes from a recipe that the one at `path` extends, because that
    /// recipe alone does not show it.
    pub fn inherited_noise(&self, path: &Path) -> Option<String> {
        let Node { value: Value::String(noise), origin } = &self.tree.find("noise.name")?.node else { return None };
        let place = origin.place().filter(|place| !place.source.is_argument)?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let from = &place.source.name;
        // A command may name a built-in recipe without `curricle:`.
        let own = real(&files::named_by_command(path));
        let here = |place: &Place| place.source.is_argument || real(Path::new(&place.source.name)) == own;
        // A recipe or sweep that sets the ratio knows of the noise.
        let Value::Table(settings) = &self.tree.find("noise")?.node.value else { return None };
        let known = settings.iter().any(|entry| entry.node.origin.place().is_some_and(here));
        (noise != "none" && !known).then(|| {
            format!("note: label noise `{noise}` is inherited from `{from}`; `[noise] name = \"none\"` turns it off")
        })
    }

    /// The settings given as arguments, such as `loss.alpha=3`.
    pub fn arguments(&self) -> Vec<String> {
        let given = |path: &str| self.tree.origin_of(path).place().is_some_and(|place| place.source.is_argument);
        let written = |path: &str| self.tree.find(path).is_some_and(|entry| entry.node.origin.place().is_some());
        let leaves = leaves(&self.tree.to_json()).into_iter();
        let given = leaves.filter(|(path, _)| path != "seed" && written(path) && given(path));
        given
            .map(|(path, value)| format!("{path}={}", value.as_str().map_or(value.to_string(), str::to_string)))
            .collect()
    }

    /// The hash as if all components were built in: equal for runs that differ only in the contents of
    /// their plugins.
    pub fn hash_without_plugins(&self) -> String {
        hash::identity(&self.tree.to_json(), &[])
    }
}

pub(crate) fn typed(tree: &Node) -> Result<Recipe, Problems> {
    serde_path_to_error::deserialize(tree.to_json()).map_err(|error| {
        // Rare, because the schema accepted the tree.
        let path = error.path().to_string();
        Problem::new(&tree.origin_of(&path), format!("`{path}`: {}", error.inner())).at(path).into()
    })
}
