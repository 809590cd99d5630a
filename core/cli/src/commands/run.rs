//! `curricle run`

use super::{DeviceArgs, RecipeArgs};
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use curricle_engine::progress::ProgressMode;
use curricle_engine::run::{self, Outcome, RunOptions};
use curricle_engine::stop::Stop;
use std::path::PathBuf;

/// Train from a recipe, evaluate, and log everything for TensorBoard.
///
/// A run that was interrupted goes on where it stopped; a finished one is not run again.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// The seed, instead of the recipe's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    device: DeviceArgs,
    /// The folder that holds all runs.
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    out: PathBuf,
    /// Keep decoded pictures in this folder, so that later epochs and runs need not decode them.
    ///
    /// Results stay the same. A data set takes 3 bytes for each pixel of each picture; the recipe
    /// can reduce them with `images.shrink`.
    #[arg(long, value_name = "FOLDER", env = "CURRICLE_IMAGE_CACHE")]
    image_cache: Option<PathBuf>,
    /// Begin anew, even if the run is finished or half done.
    #[arg(long)]
    force: bool,
    /// Say at the end where time went, also in `log.txt`, and for each epoch in TensorBoard. On CUDA
    /// this waits for the device after every part, which takes time itself.
    #[arg(long)]
    profile: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> Result<()> {
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
    };
    let stop = Stop::on_signals().map_err(|e| Error::failed(format!("cannot listen to signals: {e}")))?;
    let outcome = run::execute(&experiment, &options, &stop)?;
    if args.json { show_json(&outcome) } else { show(&outcome) }
}

/// The result, with where time went if that was asked for.
fn show_json(outcome: &Outcome) -> Result<()> {
    let failed = |e: serde_json::Error| Error::failed(e.to_string());
    let mut result = serde_json::to_value(&outcome.result).map_err(failed)?;
    if let Some(profile) = &outcome.profile {
        result["profile"] = serde_json::to_value(profile).map_err(failed)?;
    }
    output::json(&result)
}

fn show(outcome: &Outcome) -> Result<()> {
    let (result, folder) = (&outcome.result, outcome.folder.display());
    if outcome.skipped {
        output::note("finished before; `--force` runs it again");
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
    output::note(&format!("{:.1} s; everything is in `{folder}`", result.seconds));
    output::note(&format!("curves: tensorboard --logdir {folder}"));
    Ok(())
}
