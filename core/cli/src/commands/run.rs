//! `curricle run`

use super::{DeviceArgs, RecipeArgs};
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{self, RunOptions, RunOutcome};
use curricle_engine::stop::StopSignal;
use std::path::PathBuf;
use std::time::Duration;

/// Train a model from a recipe, evaluate it and log to TensorBoard.
///
/// An interrupted run resumes where it stopped; a finished run is not repeated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Seed; overrides the recipe's.
    #[arg(long, value_name = "N", value_parser = super::whole_number::<u64>, allow_negative_numbers = true)]
    seed: Option<u64>,
    #[command(flatten)]
    device: DeviceArgs,
    /// The folder that holds all runs.
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    out: PathBuf,
    /// Cache decoded images in this folder, so that later epochs and runs do not decode them again.
    ///
    /// Results stay the same. The cache takes 3 bytes per pixel of each image; set `images.shrink` in
    /// the recipe to make images smaller.
    #[arg(long, value_name = "FOLDER", env = "CURRICLE_IMAGE_CACHE")]
    image_cache: Option<PathBuf>,
    /// Write a checkpoint after an epoch if this many seconds have passed since the last one; 0: after every epoch.
    ///
    /// A run that is stopped by a signal always writes one.
    #[arg(long, value_name = "SECONDS", default_value_t = run::CHECKPOINT_SECONDS, value_parser = super::whole_number::<u64>)]
    checkpoint_every: u64,
    /// Start over, even if the run is finished or partly done.
    #[arg(long)]
    force: bool,
    /// Report where time is spent: at the end, in `log.txt`, and per epoch in TensorBoard. On CUDA
    /// this waits for the device after every part of a step, which itself takes time.
    #[arg(long)]
    profile: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let experiment = args.recipe.load(args.seed.map(|seed| format!("seed={seed}")))?;
    output::warnings(&experiment.warnings);
    let options = RunOptions {
        out: args.out.clone(),
        device: args.device.device,
        threads: args.device.threads,
        force: args.force,
        progress: ProgressMode::detect(output::verbosity() == Verbosity::Quiet),
        profile: args.profile,
        image_cache: args.image_cache.clone(),
        checkpoint_every: Duration::from_secs(args.checkpoint_every),
    };
    let stop = StopSignal::on_signals().map_err(|e| Error::failed(format!("cannot install signal handlers: {e}")))?;
    let outcome = run::execute(&experiment, &options, &stop)?;
    if args.json { show_json(&outcome) } else { show(&outcome) }
}

/// The result, with the profile if requested.
fn show_json(outcome: &RunOutcome) -> Result<()> {
    let failed = |e: serde_json::Error| Error::failed(e.to_string());
    let mut result = serde_json::to_value(&outcome.result).map_err(failed)?;
    if let Some(profile) = &outcome.profile {
        result["profile"] = serde_json::to_value(profile).map_err(failed)?;
    }
    output::json(&result)
}

fn show(outcome: &RunOutcome) -> Result<()> {
    let (result, folder) = (&outcome.result, outcome.folder.display());
    if outcome.skipped {
        output::note("already finished; use `--force` to start over");
    }
    let percent = |value: f64| format!("{:.2}", 100.0 * value);
    let untrained = result.untrained.values();
    let mut table = output::table(&["metric (%)", "untrained", "trained"]);
    for (metric, trained) in result.trained.values().into_iter().filter(|(metric, _)| metric.is_fraction()) {
        let before = untrained.iter().find(|(other, _)| *other == metric).map_or("-".into(), |(_, v)| percent(*v));
        table.add_row([metric.name(), before, percent(trained)]);
    }
    output::print(&format!("{table}\n"))?;
    if let Some(profile) = &outcome.profile {
        output::print(&format!("\n{profile}"))?;
    }
    output::note(&format!("{:.1} s; results are in `{folder}`", result.seconds));
    output::note(&format!("curves: tensorboard --logdir {}", output::in_shell(&outcome.folder)));
    Ok(())
}
