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
//! A method contributes what its own file says, over the recipe with the sweep. What the method's
//! file extends does not count here, so that every method meets the same data, network and
//! optimiser: those of the sweep. Then come the case and the values of `grid` and `zip`.

mod exclude;
mod expand;
mod read;

pub use expand::load_sweep;

use crate::files::Layer;
use crate::grid::Axis;
use crate::problems::Problem;
use crate::source::Origin;
use crate::tree::Table;
use crate::tune::Tune;
use exclude::Exclusion;
use std::path::Path;

/// More runs than this in one sweep are a slip.
const MOST_RUNS: usize = 100_000;

/// What a recipe's `[sweep]` asks for.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Methods to compare; none stands for the recipe as it is.
    methods: Vec<Variation>,
    /// Circumstances to compare them in; none stands for the recipe as it is.
    cases: Vec<Variation>,
    /// Seeds of repetitions; none stands for the recipe's own.
    seeds: Vec<(u64, Origin)>,
    /// What `grid` and `zip` vary.
    axes: Vec<Axis>,
    /// What is not run.
    exclude: Vec<Exclusion>,
    /// Where the sweep was written.
    origin: Origin,
}

/// Named settings over those of the recipe.
#[derive(Debug)]
struct Variation {
    name: String,
    layer: Layer,
    /// Where the sweep lists it.
    origin: Origin,
    /// The settings it searches, if it has a `[tune]` of its own.
    tune: Option<Tune>,
}

/// The refusal to run many runs as if they were one.
pub(crate) fn refuse(layers: &[Layer], path: &Path) -> Option<Problem> {
    let last = |key: &str| layers.iter().rev().find_map(|layer| layer.table.get(key));
    if let Some(entry) = last("sweep") {
        let problem = Problem::new(&entry.key_origin, "this recipe describes many runs, not one").at("sweep");
        return Some(problem.label("many runs").help(format!("use `curricle bench {}`", path.display())));
    }
    let entry = last("tune")?;
    let problem = Problem::new(&entry.key_origin, "this recipe searches settings, which takes many runs").at("tune");
    Some(problem.label("many runs").help(format!("use `curricle tune {}`", path.display())))
}

/// Takes a table such as `[sweep]` out of `--set` arguments.
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
