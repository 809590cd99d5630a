//! `curricle run`: trains from a recipe.

use super::PluginArgs;
use crate::output;
use clap::Args as ClapArgs;
use curricle_engine::device::DeviceChoice;
use curricle_engine::recipe;
use curricle_engine::run::{self, Outcome, RunOptions};
use curricle_engine::track::ProgressMode;
use curricle_engine::train::stop::Stop;
use curricle_engine::{Error, Result};
use std::path::PathBuf;

/// Train from a recipe, evaluate, and log everything for TensorBoard.
///
/// A run that was interrupted goes on where it stopped; a finished one is not run again.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The recipe
    pub recipe: PathBuf,
    /// Change a setting, e.g. `--set loss.alpha=3`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    #[command(flatten)]
    pub plugin: PluginArgs,
    /// The seed, instead of the recipe's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where to train: `auto`, `cpu`, `cuda` or `cuda:N`
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Threads for computing on the CPU [default: physical cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// The folder that holds all runs
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Begin anew, even if the run is finished or half done
    #[arg(long)]
    pub force: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Carries the command out.
pub fn run(args: &Args, quiet: bool) -> Result<()> {
    let mut sets = args.sets.clone();
    sets.extend(args.seed.map(|seed| format!("seed={seed}")));
    let resolved = recipe::load(&args.recipe, &sets, &args.plugin.registry()?)?;
    let options = RunOptions {
        out: args.out.clone(),
        device: args.device,
        threads: args.threads,
        force: args.force,
        progress: ProgressMode::detect(quiet),
    };
    let stop = Stop::on_signals().map_err(|e| Error::Failed(format!("cannot listen to signals: {e}")))?;
    let outcome = run::execute(&resolved, &options, &stop)?;
    show(&outcome, args.json, quiet)
}

fn show(outcome: &Outcome, json: bool, quiet: bool) -> Result<()> {
    if json {
        return output::json(&outcome.result);
    }
    if outcome.skipped && !quiet {
        output::note(&format!("finished before; `--force` runs it again: `{}`", outcome.folder.display()));
    }
    let result = &outcome.result;
    let percent = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{:.2}", 100.0 * value));
    let mut table = output::table(&["metric (%)", "untrained", "trained"]);
    for (metric, trained) in result.trained.values().into_iter().filter(|(metric, _)| metric.is_fraction()) {
        let untrained = result.untrained.values().into_iter().find(|(other, _)| *other == metric).map(|(_, v)| v);
        table.add_row([metric.name(), percent(untrained), percent(Some(trained))]);
    }
    output::line(&table.to_string())?;
    if !quiet {
        let folder = outcome.folder.display();
        output::note(&format!("{:.1} s; everything is in `{folder}`", result.seconds));
        output::note(&format!("curves: tensorboard --logdir {}", outcome.folder.display()));
    }
    Ok(())
}
