//! `curricle check`

use super::{PluginArgs, SetArgs};
use crate::completing;
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use clap_complete::ArgValueCompleter;
use curricle_engine::preflight::WithoutFiles;
use curricle_recipe::{self as recipe, Plan, Problem};
use curricle_record::Exit;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Check recipes and list all errors and warnings.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recipes to check.
    #[arg(required = true, value_name = "RECIPE", add = ArgValueCompleter::new(completing::recipes))]
    recipes: Vec<PathBuf>,
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    plugin: PluginArgs,
    /// Do not require the files that recipes name, such as data sets and weights, to exist here.
    #[arg(long)]
    no_files: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Checks every recipe, including those after one with errors.
pub(crate) fn run(args: &Args) -> Result<()> {
    let registry = args.plugin.registry()?;
    let mut all_good = true;
    let mut reports = Vec::new();
    for path in &args.recipes {
        let outcome = match args.no_files {
            true => recipe::load_sweep(path, &args.set.sets, &WithoutFiles(registry.clone())),
            false => recipe::load_sweep(path, &args.set.sets, &registry),
        };
        all_good &= outcome.is_ok();
        let problems: Vec<_> = match &outcome {
            Ok(plan) => plan.warnings(),
            Err(problems) => problems.iter().collect(),
        };
        if args.json {
            reports.push(report(path, outcome.as_ref().ok(), &problems));
        } else {
            if outcome.is_err() || output::verbosity() > Verbosity::Quiet {
                output::problems(problems.iter().copied());
            }
            let count = outcome.as_ref().map_or_else(recipe::Problems::count, |_| problems.len());
            output::print(&verdict(path, outcome.as_ref().ok(), count))?;
            let noise = outcome.as_ref().ok().and_then(|plan| plan.runs.first()?.resolved.inherited_noise(path));
            noise.iter().for_each(|noise| output::note(noise));
        }
    }
    if args.json {
        output::json(&reports)?;
    }
    if all_good { Ok(()) } else { Err(Error::Reported(Exit::Usage)) }
}

fn verdict(path: &Path, plan: Option<&Plan>, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let path = path.display();
    let Some(plan) = plan else { return format!("{path}: {count} problem{plural}\n") };
    let trials: usize = plan.searches.iter().flat_map(|search| &search.trials).map(|trial| trial.runs.len()).sum();
    let trials_plural = if trials == 1 { "" } else { "s" };
    let what = match plan.runs.as_slice() {
        [run] if trials == 0 => run.resolved.short_hash(),
        runs if trials == 0 => format!("{} runs", runs.len()),
        [_] => format!("1 run after {trials} trial{trials_plural}"),
        runs => format!("{} runs after {trials} trial{trials_plural}", runs.len()),
    };
    match count {
        0 => format!("{path}: ok, {what}\n"),
        _ => format!("{path}: ok, {what}, {count} warning{plural}\n"),
    }
}

fn report(path: &Path, plan: Option<&Plan>, problems: &[&Problem]) -> Value {
    let settled =
        |plan: &Plan| plan.runs.iter().filter(|run| run.search.is_none()).map(|run| run.resolved.hash()).collect();
    let hashes: Option<Vec<_>> = plan.map(settled);
    json!({
        "recipe": path,
        "ok": plan.is_some(),
        "runs": plan.map(|plan| plan.runs.len()),
        "hash": hashes.as_ref().filter(|all| all.len() == 1).map(|all| all[0].clone()),
        "hashes": hashes,
        "problems": problems.iter().map(|problem| problem.to_json()).collect::<Vec<_>>(),
    })
}
