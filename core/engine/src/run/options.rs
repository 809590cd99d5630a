//! Options and outcome of a run.

use crate::device::DeviceChoice;
use crate::progress::ProgressMode;
use crate::track::ProfileSummary;
use curricle_record::RunResult;
use std::path::PathBuf;
use std::time::Duration;

/// Default of [`RunOptions::checkpoint_every`]. Epochs of small runs take less than a second; losing a minute of
/// training when a process is killed costs little.
pub const CHECKPOINT_SECONDS: u64 = 60;

/// Options that describe where and how a recipe is run, and do not change its results.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The folder that holds all runs.
    pub out: PathBuf,
    /// The device to train on.
    pub device: DeviceChoice,
    /// Number of libtorch threads; defaults to the number of physical cores.
    pub threads: Option<usize>,
    /// Start over even if the run is finished or interrupted.
    pub force: bool,
    /// How progress is shown.
    pub progress: ProgressMode,
    /// Profile the run; this waits for the device after every phase.
    pub profile: bool,
    /// Folder of the cache of decoded images.
    pub image_cache: Option<PathBuf>,
    /// The shortest time between the checkpoints at the ends of epochs.
    pub checkpoint_every: Duration,
}

/// How a run ended that did not fail.
#[derive(Debug)]
pub struct RunOutcome {
    /// Its folder.
    pub folder: PathBuf,
    /// Its result.
    pub result: RunResult,
    /// Whether it was already finished, so nothing was done.
    pub skipped: bool,
    /// The profile, if it was requested and the run was not skipped.
    pub profile: Option<ProfileSummary>,
}
