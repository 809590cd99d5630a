//! The state of a run, read from its folder.

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

/// The status of a run, for the status table and its JSON output.
#[derive(Debug, Clone, Serialize)]
pub struct RunStatus {
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
    /// The current or last epoch.
    pub epoch: Option<u64>,
    /// The total number of epochs.
    pub epochs: u64,
    /// Recall@1 as a fraction, if it is finished.
    pub recall_at_1: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its folder; absent until its settings are chosen.
    pub folder: Option<PathBuf>,
}

impl RunStatus {
    /// The status of a run in this state.
    pub fn new(run: &SweepRun, trial: bool, state: &RunState, out: &Path) -> Self {
        let folder = run.search.is_none().then(|| folder_of(run, out));
        let recipe = &run.resolved.recipe;
        let started = matches!(state, RunState::Running | RunState::Interrupted | RunState::Failed(_));
        let epoch = match state {
            RunState::Finished(result) => Some(result.epochs),
            _ => folder.as_ref().filter(|_| started).and_then(|folder| metrics_file::last_epoch(&folder.metrics())),
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

/// The folder of a run below `out`.
pub fn folder_of(run: &SweepRun, out: &Path) -> RunFolder {
    run.resolved.folder(out)
}
