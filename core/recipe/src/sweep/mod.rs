//! `[sweep]`: one recipe for many runs.
//!
//! ```toml
//! [sweep]
//! methods = ["methods/ms.toml", "methods/bspml.toml"]
//! seeds = 3
//! grid = { noise.ratio = [0.1, 0.2, 0.3], embedding.size = [64, 128] }
//! exclude = [{ method = "ms", noise.ratio = 0.3 }]
//! ```
//!
//! With `weights = ["uniform", "knn"]` every method is run with each of these weight schemes instead of its
//! own. The settings in a method's file override those of the recipe with the sweep. What the method's
//! file extends is ignored, so that all methods use the same data, network and optimiser: those of
//! the sweep. Then the case and the values of `grid` and `zip` are applied.

mod exclude;
mod expand;
mod read;

pub use expand::load_sweep;

use crate::files::Layer;
use crate::grid::SweepAxis;
use crate::problems::Problem;
use crate::source::Origin;
use crate::tree::Table;
use crate::tune::Tune;
use exclude::Exclusion;
use std::path::Path;

/// Maximum number of runs of one sweep; more are probably a mistake.
const MAX_RUNS: usize = 100_000;

/// The `[sweep]` table of a recipe.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Methods to compare, each with every scheme of `sweep.weights`; if empty, the recipe as it is.
    methods: Vec<Variation>,
    /// Cases to compare them in; if empty, the recipe as it is.
    cases: Vec<Variation>,
    /// Seeds of the repetitions; if empty, the recipe's seed.
    seeds: Vec<(u64, Origin)>,
    /// The axes of `grid` and `zip`.
    axes: Vec<SweepAxis>,
    /// Combinations not to run.
    exclude: Vec<Exclusion>,
    /// Where the sweep was written.
    origin: Origin,
}

/// Named settings that override those of the recipe: a method or a case.
#[derive(Debug, Clone)]
struct Variation {
    name: String,
    layer: Layer,
    /// Where the sweep lists it.
    origin: Origin,
    /// Its own `[tune]`, if any.
    tune: Option<Tune>,
}

/// The problem with running a recipe with a `[sweep]` or `[tune]` as a single run.
pub(crate) fn refuse(layers: &[Layer], path: &Path) -> Option<Problem> {
    let last = |key: &str| layers.iter().rev().find_map(|layer| layer.table.get(key));
    if let Some(entry) = last("sweep") {
        let problem = Problem::new(&entry.key_origin, "this recipe describes many runs, not one").at("sweep");
        return Some(problem.label("many runs").help(format!("use `curricle bench {}`", path.display())));
    }
    let entry = last("tune")?;
    let problem = Problem::new(&entry.key_origin, "this recipe tunes settings, which takes many runs").at("tune");
    Some(problem.label("many runs").help(format!("use `curricle tune {}`", path.display())))
}

/// Removes a table such as `[sweep]` from `--set` arguments.
fn take_arguments(arguments: &mut [Table], key: &str) -> Table {
    let mut taken = Table::default();
    for table in arguments {
        let Some(entry) = table.remove(key) else { continue };
        if let crate::tree::Value::Table(inner) = entry.node.value {
            inner.into_iter().for_each(|entry| taken.insert(entry));
        }
    }
    taken
}
