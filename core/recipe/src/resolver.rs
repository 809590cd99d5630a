//! Resolves many recipes that share most of their files.
//!
//! A sweep has thousands of recipes and one schema: libraries are loaded and the schema is built
//! once for each set of libraries, not once for each recipe.

use crate::advice::advice;
use crate::catalogue::{COMPONENT_TABLES, Catalogue, Written};
use crate::contradictions::contradictions;
use crate::files::{self, Layer};
use crate::problems::{Problem, Problems};
use crate::resolved::{Resolved, typed};
use crate::schema::Schema;
use crate::settings::{PluginFile, Recipe};
use crate::source::Origin;
use crate::tree::{Entry, Node, Table, Value};
use crate::{merge, plugins, validate};
use std::path::Path;
use std::rc::Rc;

/// Resolves recipes and caches what they share.
pub(crate) struct Resolver<'c, C> {
    catalogue: &'c C,
    shared: Vec<Rc<Shared<C>>>,
}

/// What recipes with the same libraries share.
struct Shared<C> {
    /// The list of libraries as written in the recipe.
    written: Option<Node>,
    catalogue: C,
    schema: Schema,
}

/// A recipe that has been validated against the schema.
pub(crate) struct Draft<C> {
    /// The recipe with its defaults.
    pub tree: Node,
    problems: Vec<Problem>,
    shared: Rc<Shared<C>>,
}

impl<'c, C: Catalogue> Resolver<'c, C> {
    pub(crate) fn new(catalogue: &'c C) -> Self {
        Self { catalogue, shared: Vec::new() }
    }

    /// Merges the layers and the arguments, validates the result and fills in the defaults.
    pub(crate) fn draft(
        &mut self,
        path: &Path,
        layers: Vec<Layer>,
        arguments: Vec<Table>,
    ) -> Result<Draft<C>, Problems> {
        let shared = self.shared(&layers, &arguments)?;
        let tree = merged(path, layers, arguments, &shared.schema, &shared.catalogue.plugins());
        let (tree, problems) = validate::validate(tree, &shared.schema);
        Ok(Draft { tree, problems, shared })
    }

    fn shared(&mut self, layers: &[Layer], arguments: &[Table]) -> Result<Rc<Shared<C>>, Problems> {
        let written = plugins::written_last(layers, arguments);
        if let Some(shared) = self.shared.iter().find(|shared| shared.written.as_ref() == written) {
            return Ok(Rc::clone(shared));
        }
        let catalogue = plugins::load(written, self.catalogue)?;
        let schema = Schema::of_recipes(&catalogue.components());
        let shared = Rc::new(Shared { written: written.cloned(), catalogue, schema });
        self.shared.push(Rc::clone(&shared));
        Ok(shared)
    }
}

impl<C: Catalogue> Draft<C> {
    /// The recipe ready to be run, or everything that is wrong with it.
    pub(crate) fn finish(self) -> Result<Resolved, Problems> {
        let Self { mut tree, problems, shared } = self;
        let catalogue = &shared.catalogue;
        Problems::check(problems)?;
        let recipe = typed(&tree)?;
        let written = Written { recipe: &recipe, tree: &tree };
        let mut problems = contradictions(written);
        let lr_scales = catalogue.examine(written).unwrap_or_else(|refused| {
            problems.extend(refused);
            Vec::new()
        });
        Problems::check(problems)?;
        fill_in_scales(&mut tree, lr_scales);
        if let Some(script) = recipe.backbone.torchscript().filter(|script| script.sha256.is_none())
            && let Some(hash) = catalogue.file_hash(&script.path)
        {
            tree.set("backbone.sha256", Node { value: Value::String(hash), origin: Origin::Default });
        }
        let recipe = typed(&tree)?;
        let written = Written { recipe: &recipe, tree: &tree };
        let mut warnings = advice(written);
        warnings.extend(catalogue.advise(written));
        let plugins_used = plugins_used(&recipe, catalogue);
        Ok(Resolved { recipe, tree, warnings, plugins_used })
    }
}

/// Records the learning-rate scales that the loss declares where the recipe sets none, so that a
/// stored recipe keeps its meaning if the loss changes its default.
fn fill_in_scales(tree: &mut Node, scales: Vec<(String, f64)>) {
    let Value::Table(recipe) = &mut tree.value else { return };
    let Some(groups) = recipe.below("groups") else { return };
    for (group, scale) in scales {
        let Some(group) = groups.below(&group) else { continue };
        if group.get("lr_scale").is_none() {
            let node = Node { value: Value::Float(scale), origin: Origin::Default };
            group.insert(Entry { key: "lr_scale".into(), key_origin: Origin::Default, node });
        }
    }
}

fn plugins_used(recipe: &Recipe, catalogue: &impl Catalogue) -> Vec<PluginFile> {
    let Recipe { loss, sampler, weights, .. } = recipe;
    let components = catalogue.components();
    let mut used: Vec<PluginFile> = Vec::new();
    for (table, name) in COMPONENT_TABLES.into_iter().zip([&loss.name, &sampler.name, &weights.name]) {
        let component = components.iter().find(|component| component.table == table && component.name == *name);
        if let Some(plugin) = component.and_then(|component| component.plugin.clone())
            && !used.contains(&plugin)
        {
            used.push(plugin);
        }
    }
    used
}

fn merged(path: &Path, layers: Vec<Layer>, sets: Vec<Table>, schema: &Schema, loaded: &[PluginFile]) -> Node {
    let arguments = merged_arguments(sets, schema);
    let mut table = Table::default();
    let mut origin = Origin::Default;
    for layer in layers {
        origin = files::beginning(&layer.source);
        // These two describe the file itself, not the recipes that extend it.
        table.remove("name");
        table.remove("description");
        merge::merge(&mut table, layer.table, schema, schema.as_json());
    }
    merge::merge(&mut table, arguments, schema, schema.as_json());
    if table.get("name").is_none() {
        let node = Node { value: Value::String(files::stem(path)), origin: Origin::Default };
        table.insert(Entry { key: "name".into(), key_origin: Origin::Default, node });
    }
    plugins::record(&mut table, loaded);
    Node { value: Value::Table(table), origin }
}

/// All `--set` arguments as one table, so that their order matters only for equal keys.
pub(crate) fn merged_arguments(sets: Vec<Table>, schema: &Schema) -> Table {
    let mut all = Table::default();
    for table in sets {
        merge::merge(&mut all, table, schema, schema.as_json());
    }
    all
}
