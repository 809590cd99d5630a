//! The state of a run, read from its folder.

use crate::files;
use crate::recipe::SweepRun;
use crate::run::{FAILURE, RunFolder, RunResult};
use crate::{Error, Result};
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Number of bytes at the end of `metrics.jsonl` to search for the last record.
const TAIL: u64 = 4096;

/// The state of a run.
#[derive(Debug, Clone)]
pub enum State {
    /// It has a result.
    Finished(Box<RunResult>),
    /// A process is working on it.
    Running,
    /// It was interrupted and can be resumed.
    Interrupted,
    /// It failed with this error.
    Failed(String),
    /// It has not been started.
    Missing,
    /// It waits for the search that chooses its settings.
    Waiting,
}

/// The names of all states, in the order of the summary.
pub const STATES: [&str; 6] = ["finished", "running", "interrupted", "failed", "missing", "waiting"];

impl State {
    /// The state of a run whose folder is below `out`.
    pub fn of(run: &SweepRun, out: &Path) -> Result<Self> {
        if run.search.is_some() {
            return Ok(State::Waiting);
        }
        let folder = folder_of(run, out);
        if let Some(result) = files::read_json(&folder.join("result.json"))? {
            return Ok(State::Finished(Box::new(result)));
        }
        if RunFolder::is_taken(&folder) {
            return Ok(State::Running);
        }
        let failure = folder.join(FAILURE);
        match std::fs::read_to_string(&failure) {
            Ok(message) => return Ok(State::Failed(message.trim().to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("read", &failure)(error)),
        }
        // A folder with only a lock file was never started.
        Ok(if folder.join("manifest.json").exists() { State::Interrupted } else { State::Missing })
    }

    /// The name of the state.
    pub fn name(&self) -> &'static str {
        match self {
            State::Finished(_) => "finished",
            State::Running => "running",
            State::Interrupted => "interrupted",
            State::Failed(_) => "failed",
            State::Missing => "missing",
            State::Waiting => "waiting",
        }
    }

    /// Whether the run is unfinished and no process is working on it.
    pub fn is_open(&self) -> bool {
        matches!(self, State::Interrupted | State::Failed(_) | State::Missing)
    }

    /// The result, if the run is finished.
    pub fn result(&self) -> Option<&RunResult> {
        match self {
            State::Finished(result) => Some(result),
            _ => None,
        }
    }
}

/// The status of a run, for the status table and its JSON output.
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
    /// One of [`STATES`].
    pub state: &'static str,
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

impl Standing {
    /// The status of a run in this state.
    pub fn new(run: &SweepRun, trial: bool, state: &State, out: &Path) -> Self {
        let folder = run.search.is_none().then(|| folder_of(run, out));
        let recipe = &run.resolved.recipe;
        let started = matches!(state, State::Running | State::Interrupted | State::Failed(_));
        let epoch = match state {
            State::Finished(result) => Some(result.epochs),
            _ => folder.as_ref().filter(|_| started).and_then(|folder| last_epoch(&folder.join("metrics.jsonl"))),
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
                State::Failed(message) => Some(message.clone()),
                _ => None,
            },
            folder,
        }
    }
}

/// The folder of a run below `out`.
pub fn folder_of(run: &SweepRun, out: &Path) -> PathBuf {
    let recipe = &run.resolved.recipe;
    RunFolder::path_for(out, &recipe.name, &run.resolved.hash(), recipe.seed)
}

/// The epoch of the last complete record.
fn last_epoch(metrics: &Path) -> Option<u64> {
    let mut file = File::open(metrics).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail).into_owned();
    let record = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["epoch"].as_u64();
    tail.lines().rev().find_map(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_is_read_from_the_last_complete_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"epoch\":1}\n{\"epoch\":2}\n{\"epo").unwrap();
        assert_eq!(last_epoch(&path), Some(2));
        assert_eq!(last_epoch(&folder.path().join("none")), None);
    }
}
