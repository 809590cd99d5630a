//! How a run stands, from its folder alone.

use crate::Result;
use curricle_recipe::SweepRun;
use curricle_record::{RunFolder, RunState, StateName, metrics_file};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The state of a run whose folder is below `out`.
pub fn state_of(run: &SweepRun, out: &Path) -> Result<RunState> {
    if run.search.is_some() {
        return Ok(RunState::Waiting);
    }
    Ok(RunState::of(&folder_of(run, out))?)
}

/// How a run stands, for people and programs.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// The method.
    pub method: String,
    /// The case, if there are several.
    pub case: Option<String>,
    /// The seed.
    pub seed: u64,
    /// Whether it is a trial of a search.
    pub trial: bool,
    /// Its state.
    pub state: StateName,
    /// The epoch it is in, or ended with.
    pub epoch: Option<u64>,
    /// The epochs it is to have.
    pub epochs: u64,
    /// Recall@1 as a fraction, if it is finished.
    pub recall_at_1: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its folder; absent while its settings are not known.
    pub folder: Option<PathBuf>,
}

impl Standing {
    /// Describes a run in a state.
    pub fn new(run: &SweepRun, trial: bool, state: &RunState, out: &Path) -> Self {
        let folder = run.search.is_none().then(|| folder_of(run, out));
        let recipe = &run.resolved.recipe;
        let begun = matches!(state, RunState::Running | RunState::Interrupted | RunState::Failed(_));
        let epoch = match state {
            RunState::Finished(result) => Some(result.epochs),
            _ => folder.as_ref().filter(|_| begun).and_then(|folder| metrics_file::last_epoch(&folder.metrics())),
        };
        Self {
            method: run.method.clone(),
            case: run.case.clone(),
            seed: recipe.seed,
            trial,
            state: state.name(),
            epoch,
            epochs: recipe.train.epochs,
            recall_at_1: state.result().and_then(|result| result.trained.recall.get(&1).copied()),
            error: match state {
                RunState::Failed(message) => Some(message.clone()),
                _ => None,
            },
            folder: folder.map(|folder| folder.path().into()),
        }
    }
}

/// The folder a run has below `out`.
pub fn folder_of(run: &SweepRun, out: &Path) -> RunFolder {
    let recipe = &run.resolved.recipe;
    RunFolder::below(out, &recipe.name, &run.resolved.hash(), recipe.seed)
}
