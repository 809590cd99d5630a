//! Resolution of many similar recipes.
//!
//! A sweep may have thousands of recipes, but one schema: libraries are loaded and the schema is
//! generated once per list of libraries, not once per recipe.

use super::advice::advice;
use super::files::Layer;
use super::problems::{Problem, Problems};
use super::resolve::{Resolved, components, contradictions, merged, typed};
use super::schema::Schema;
use super::tree::{Node, Table};
use super::{declared, plugins, validate};
use crate::Result;
use crate::registry::Registry;
use std::path::Path;
use std::rc::Rc;

/// Resolves recipes and caches what they share.
pub(crate) struct Resolver<'r> {
    registry: &'r Registry,
    known: Vec<Rc<Known>>,
}

/// What recipes with the same libraries share.
struct Known {
    /// The list of libraries as written in the recipe.
    written: Option<Node>,
    registry: Registry,
    schema: Schema,
}

/// A recipe that has been validated against the schema.
pub(crate) struct Draft {
    /// The recipe with its defaults.
    pub tree: Node,
    problems: Vec<Problem>,
    known: Rc<Known>,
}

impl<'r> Resolver<'r> {
    pub fn new(registry: &'r Registry) -> Self {
        Self { registry, known: Vec::new() }
    }

    /// Merges the layers and the arguments, validates the result and fills in the defaults.
    pub fn draft(&mut self, path: &Path, layers: Vec<Layer>, arguments: Vec<Table>) -> Result<Draft, Problems> {
        let known = self.known(&layers, &arguments)?;
        let tree = merged(path, layers, arguments, &known.schema, known.registry.plugins());
        let (tree, problems) = validate::validate(tree, &known.schema);
        Ok(Draft { tree, problems, known })
    }

    fn known(&mut self, layers: &[Layer], arguments: &[Table]) -> Result<Rc<Known>, Problems> {
        let written = plugins::written_last(layers, arguments);
        if let Some(known) = self.known.iter().find(|known| known.written.as_ref() == written) {
            return Ok(Rc::clone(known));
        }
        let registry = plugins::load(written, self.registry)?;
        let schema = Schema::of_recipes(&registry);
        let known = Rc::new(Known { written: written.cloned(), registry, schema });
        self.known.push(Rc::clone(&known));
        Ok(known)
    }
}

impl Draft {
    /// The recipe ready to run, or all its problems.
    pub fn finish(self) -> Result<Resolved> {
        let Self { mut tree, problems, known } = self;
        Problems::check(problems)?;
        let recipe = typed(&tree)?;
        let mut problems = Vec::new();
        contradictions(&recipe, &tree, &mut problems);
        let components = match components(&recipe, &tree, &known.registry) {
            Ok(components) => components,
            Err(refused) => return Err(Problems::from([problems, refused].concat()).into()),
        };
        Problems::check(problems)?;
        declared::fill_in_scales(&mut tree, components.loss.as_ref(), recipe.embedding.size);
        let recipe = typed(&tree)?;
        let registry = known.registry.clone();
        let mut resolved = Resolved { recipe, components, tree, warnings: Vec::new(), registry };
        resolved.warnings = advice(&resolved, None);
        Ok(resolved)
    }
}
