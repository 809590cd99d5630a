//! One run from lock to result or `error.txt`.

use super::options::{RunOptions, RunOutcome};
use super::plugins;
use super::run_loop::RunLoop;
use crate::experiment::Experiment;
use crate::last_words;
use crate::stop::StopSignal;
use crate::track::logging;
use crate::{Error, Result, caught};
use curricle_record::files;

/// Runs a recipe to its end: starts it, resumes it, or skips it if it is finished.
pub fn execute(experiment: &Experiment, options: &RunOptions, stop: &StopSignal) -> Result<RunOutcome> {
    let out = std::path::absolute(&options.out).map_err(Error::file("resolve", &options.out))?;
    let folder = experiment.folder(&out);
    if !options.force {
        plugins::check_plugins_unchanged(experiment, &options.out, &folder)?;
    }
    let folder = folder.lock()?;
    if options.force {
        folder.clear()?;
    } else if let Some(result) = folder.read_result()? {
        return Ok(RunOutcome { folder: folder.path().into(), result, skipped: true, profile: None });
    }
    let _log = logging::attach_file(&folder.log())?;
    let failure = folder.error();
    last_words::write_to(&failure);
    if failure.exists() {
        std::fs::remove_file(&failure).map_err(Error::file("remove", &failure))?;
    }
    let whole = || RunLoop::begin(experiment, options, folder).and_then(|run| run.finish_training(stop));
    let outcome = caught("running", whole).map_err(|error| experiment.blame(error));
    if let Err(error) = &outcome {
        tracing::error!(target: logging::FILE_ONLY, "{error}");
        if !matches!(error, Error::Interrupted(_)) {
            // Only for people who look at the folder; the caller gets the error itself.
            let _ = files::write(&failure, format!("{error}\n").as_bytes());
        }
    }
    outcome
}
