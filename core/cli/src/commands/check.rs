//! `curricle check`

use super::{PluginArgs, SetArgs};
use crate::output::{self, Verbosity};
use curricle_engine::recipe::{self, Problem, SweepRun};
use curricle_engine::{Error, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Check recipes and list all that is wrong or doubtful.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recipes.
    #[arg(required = true, value_name = "RECIPE")]
    recipes: Vec<PathBuf>,
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    plugin: PluginArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Checks every recipe, whatever the others are like.
pub fn run(args: &Args) -> Result<()> {
    let registry = args.plugin.registry()?;
    let mut all_good = true;
    let mut reports = Vec::new();
    for path in &args.recipes {
        let outcome = match recipe::load_sweep(path, &args.set.sets, &registry) {
            Ok(runs) => Ok(runs),
            Err(Error::Recipe(problems)) => Err(problems),
            Err(other) => return Err(other),
        };
        all_good &= outcome.is_ok();
        let problems: Vec<_> = match &outcome {
            Ok(runs) => distinct(runs.iter().flat_map(|run| &run.resolved.warnings)),
            Err(problems) => problems.iter().collect(),
        };
        if args.json {
            reports.push(report(path, outcome.as_deref().ok(), &problems));
        } else {
            if outcome.is_err() || output::verbosity() > Verbosity::Quiet {
                output::problems(problems.iter().copied());
            }
            output::print(&verdict(path, outcome.as_deref().ok(), problems.len()))?;
        }
    }
    if args.json {
        output::json(&reports)?;
    }
    if all_good { Ok(()) } else { Err(Error::Reported(2)) }
}

/// Runs of a sweep share most of their warnings.
fn distinct<'a>(all: impl Iterator<Item = &'a Problem>) -> Vec<&'a Problem> {
    let mut seen = Vec::new();
    for problem in all {
        if !seen.iter().any(|known: &&Problem| known.to_json() == problem.to_json()) {
            seen.push(problem);
        }
    }
    seen
}

fn verdict(path: &Path, runs: Option<&[SweepRun]>, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let path = path.display();
    let what = match runs {
        None => return format!("{path}: {count} problem{plural}\n"),
        Some([run]) => run.resolved.short_hash(),
        Some(runs) => format!("{} runs", runs.len()),
    };
    match count {
        0 => format!("{path}: ok, {what}\n"),
        _ => format!("{path}: ok, {what}, {count} warning{plural}\n"),
    }
}

fn report(path: &Path, runs: Option<&[SweepRun]>, problems: &[&Problem]) -> Value {
    let hashes = runs.map(|runs| runs.iter().map(|run| run.resolved.hash()).collect::<Vec<_>>());
    json!({
        "recipe": path,
        "ok": runs.is_some(),
        "hash": hashes.as_ref().filter(|all| all.len() == 1).map(|all| all[0].clone()),
        "hashes": hashes,
        "problems": problems.iter().map(|problem| problem.to_json()).collect::<Vec<_>>(),
    })
}
