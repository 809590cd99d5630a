//! The runs that a recipe with a `[sweep]` or a `[tune]` describes.

use crate::problems::{Problem, Problems};
use crate::resolved::Resolved;
use crate::source::Origin;
use crate::tree::{Node, Value};
use serde_json::Value as Json;
use std::collections::HashSet;

/// Everything a recipe with a `[sweep]` or a `[tune]` describes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the whole: the recipe's name, as a folder may be called.
    pub name: String,
    /// The runs to compare. Repetitions come last: all methods of the first seed before any of the
    /// second.
    pub runs: Vec<SweepRun>,
    /// The searches for settings that some of the runs wait for.
    pub searches: Vec<Search>,
}

/// One of the runs that a recipe describes.
#[derive(Debug, Clone)]
pub struct SweepRun {
    /// The method's name.
    pub method: String,
    /// The name of the case, if there are several.
    pub case: Option<String>,
    /// The recipe of this run alone. A run that waits for a search has the recipe without the
    /// settings that are searched.
    pub resolved: Resolved,
    /// The search this run waits for, as an index into [`Plan::searches`].
    pub search: Option<usize>,
}

/// The trials from which the settings of some runs are chosen.
#[derive(Debug, Clone)]
pub struct Search {
    /// The method's name.
    pub method: String,
    /// The name of the case, if there are several.
    pub case: Option<String>,
    /// The metric that decides, e.g. `recall@1`; larger is better.
    pub metric: String,
    /// What is tried.
    pub trials: Vec<Trial>,
}

/// One combination of searched settings.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its name, e.g. `eta=2`.
    pub label: String,
    /// The searched settings by dotted path.
    pub settings: Vec<(String, Json)>,
    /// The recipe of a final run with these settings.
    pub resolved: Resolved,
    /// The runs that try the settings on the validation classes, one for each seed.
    pub runs: Vec<SweepRun>,
}

impl Plan {
    /// The warnings of all runs, each once.
    pub fn warnings(&self) -> Vec<&Problem> {
        let runs = self.runs.iter().map(|run| &run.resolved);
        let trials = self.searches.iter().flat_map(|search| &search.trials).map(|trial| &trial.resolved);
        let mut seen = HashSet::new();
        runs.chain(trials).flat_map(|resolved| &resolved.warnings).filter(|one| seen.insert(one.identity())).collect()
    }

    /// Gives the runs that wait for a search the settings of one of its trials.
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
