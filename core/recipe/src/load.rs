//! Loads a recipe from files and `--set` arguments.

use crate::catalogue::{Catalogue, ComponentSchema};
use crate::problems::Problems;
use crate::resolved::Resolved;
use crate::resolver::{Resolver, merged_arguments};
use crate::schema::Schema;
use crate::source::Origin;
use crate::tree::{Node, Value};
use crate::{arguments, files, sweep, validate};
use serde_json::Value as Json;
use std::path::Path;

/// Reads a recipe and everything it extends, applies `--set` arguments, and resolves it; the error lists all
/// problems.
pub fn load(path: &Path, sets: &[String], catalogue: &impl Catalogue) -> Result<Resolved, Problems> {
    let path = &files::named_by_command(path);
    let layers = files::layers(path)?;
    Problems::check(sweep::refuse(&layers, path).into_iter().collect())?;
    Resolver::new(catalogue).draft(path, layers, arguments::tables(sets)?)?.finish()
}

/// Validates the settings of one component, given as `key=value` without the component's table,
/// and fills in its defaults.
pub fn settings_of(component: &ComponentSchema, sets: &[String]) -> Result<Json, Problems> {
    let schema = Schema::of_component(component);
    let table = merged_arguments(arguments::tables(sets)?, &schema);
    let tree = Node { value: Value::Table(table), origin: Origin::Default };
    let (tree, problems) = validate::validate_table(tree, &schema, component.table);
    Problems::check(problems)?;
    Ok(tree.to_json())
}
