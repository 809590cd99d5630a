//! The state of a run, read from its folder alone.

use super::folder::RunFolder;
use super::result::RunResult;
use super::{Error, Result};
use serde::Serialize;

/// The state of a run.
#[derive(Debug, Clone)]
pub enum RunState {
    /// It has a result.
    Finished(Box<RunResult>),
    /// A process is working on it.
    Running,
    /// It was stopped and can be resumed.
    Interrupted,
    /// It failed with this error.
    Failed(String),
    /// It has not started.
    NotStarted,
    /// It is waiting for the search that chooses its settings.
    Waiting,
}

/// A [`RunState`] in one word, for tables and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as in `RunState`")]
pub enum StateName {
    Finished,
    Running,
    Interrupted,
    Failed,
    NotStarted,
    Waiting,
}

impl StateName {
    /// All of them, in the order of a summary.
    pub const ALL: [StateName; 6] = [
        StateName::Finished,
        StateName::Running,
        StateName::Interrupted,
        StateName::Failed,
        StateName::NotStarted,
        StateName::Waiting,
    ];

    /// As JSON and tables write it.
    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Finished => "finished",
            StateName::Running => "running",
            StateName::Interrupted => "interrupted",
            StateName::Failed => "failed",
            StateName::NotStarted => "not started",
            StateName::Waiting => "waiting",
        }
    }
}

impl std::fmt::Display for StateName {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl RunState {
    /// The state of the run in a folder.
    pub fn of(folder: &RunFolder) -> Result<Self> {
        if let Some(result) = folder.read_result()? {
            return Ok(RunState::Finished(Box::new(result)));
        }
        if folder.is_locked() {
            return Ok(RunState::Running);
        }
        let failure = folder.error();
        match std::fs::read_to_string(&failure) {
            Ok(message) => return Ok(RunState::Failed(message.trim().to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file("read", &failure)(error)),
        }
        // A folder that holds only a lock was never started.
        Ok(if folder.manifest().exists() { RunState::Interrupted } else { RunState::NotStarted })
    }

    /// The state in one word.
    pub fn name(&self) -> StateName {
        match self {
            RunState::Finished(_) => StateName::Finished,
            RunState::Running => StateName::Running,
            RunState::Interrupted => StateName::Interrupted,
            RunState::Failed(_) => StateName::Failed,
            RunState::NotStarted => StateName::NotStarted,
            RunState::Waiting => StateName::Waiting,
        }
    }

    /// Whether the run is unfinished and no process is working on it.
    pub fn is_open(&self) -> bool {
        matches!(self, RunState::Interrupted | RunState::Failed(_) | RunState::NotStarted)
    }

    /// The result, if the run is finished.
    pub fn result(&self) -> Option<&RunResult> {
        match self {
            RunState::Finished(result) => Some(result),
            _ => None,
        }
    }
}
