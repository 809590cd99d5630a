//! The runs that a recipe with a `[sweep]` or a `[tune]` describes.

use crate::problems::{Problem, Problems};
use crate::resolved::Resolved;
use crate::source::Origin;
use crate::tree::{Node, Value};
use serde_json::Value as Json;
use std::collections::HashSet;

/// The runs and searches of a recipe with a `[sweep]` or a `[tune]`.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The recipe's name, as a valid folder name.
    pub name: String,
    /// The runs to compare, ordered by seed: all methods with the first seed come before those with
    /// the second.
    pub runs: Vec<SweepRun>,
    /// The searches that some of the runs depend on.
    pub searches: Vec<Search>,
}

/// One run of a sweep.
#[derive(Debug, Clone)]
pub struct SweepRun {
    /// The method's name.
    pub method: String,
    /// The name of the case, if there are several.
    pub case: Option<String>,
    /// The recipe of this run. For a run that depends on a search, it is a placeholder: the recipe
    /// of the first trial.
    pub resolved: Resolved,
    /// The search this run depends on, as an index into [`Plan::searches`].
    pub search: Option<usize>,
}

/// A search: trials, the best of which gives some runs their settings.
#[derive(Debug, Clone)]
pub struct Search {
    /// The method's name.
    pub method: String,
    /// The name of the case, if there are several.
    pub case: Option<String>,
    /// The metric that selects the best trial, e.g. `recall@1`; larger is better.
    pub metric: String,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// One combination of searched settings.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its label, e.g. `eta=2`.
    pub label: String,
    /// The searched settings by dotted path.
    pub settings: Vec<(String, Json)>,
    /// The recipe of a final run with these settings.
    pub resolved: Resolved,
    /// The runs that evaluate the settings on the validation classes, one per seed.
    pub runs: Vec<SweepRun>,
}

impl Plan {
    /// The warnings of all runs, without duplicates.
    pub fn warnings(&self) -> Vec<&Problem> {
        let runs = self.runs.iter().map(|run| &run.resolved);
        let trials = self.searches.iter().flat_map(|search| &search.trials).map(|trial| &trial.resolved);
        let mut seen = HashSet::new();
        runs.chain(trials).flat_map(|resolved| &resolved.warnings).filter(|one| seen.insert(one.identity())).collect()
    }

    /// Gives the runs that depend on a search the settings of one of its trials.
    pub fn settle(&mut self, search: usize, trial: usize) -> Result<(), Problems> {
        let Some(chosen) = self.searches.get(search).and_then(|search| search.trials.get(trial)) else { return Ok(()) };
        for run in self.runs.iter_mut().filter(|run| run.search == Some(search)) {
            run.resolved = chosen.resolved.with([("seed", seed_node(run.resolved.recipe.seed, &Origin::Default))])?;
            run.search = None;
        }
        Ok(())
    }
}

pub(crate) fn seed_node(seed: u64, origin: &Origin) -> Node {
    Node { value: Value::Integer(seed.into()), origin: origin.clone() }
}
