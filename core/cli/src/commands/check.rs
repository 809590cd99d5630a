//! `curricle check`

use super::{PluginArgs, SetArgs};
use crate::output;
use curricle_engine::recipe::{self, Problem, Resolved};
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
        let outcome = match recipe::load(path, &args.set.sets, &registry) {
            Ok(resolved) => Ok(resolved),
            Err(Error::Recipe(problems)) => Err(problems),
            Err(other) => return Err(other),
        };
        all_good &= outcome.is_ok();
        let problems: Vec<_> = match &outcome {
            Ok(resolved) => resolved.warnings.iter().collect(),
            Err(problems) => problems.iter().collect(),
        };
        if args.json {
            reports.push(report(path, outcome.as_ref().ok(), &problems));
        } else {
            match &outcome {
                Ok(resolved) => output::warnings(&resolved.warnings),
                Err(problems) => output::problems(problems.iter()),
            }
            output::print(&verdict(path, outcome.as_ref().ok(), problems.len()))?;
        }
    }
    if args.json {
        output::json(&reports)?;
    }
    if all_good { Ok(()) } else { Err(Error::Reported(2)) }
}

fn verdict(path: &Path, resolved: Option<&Resolved>, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let path = path.display();
    match resolved {
        Some(resolved) if count == 0 => format!("{path}: ok, {}\n", resolved.short_hash()),
        Some(resolved) => format!("{path}: ok, {}, {count} warning{plural}\n", resolved.short_hash()),
        None => format!("{path}: {count} problem{plural}\n"),
    }
}

fn report(path: &Path, resolved: Option<&Resolved>, problems: &[&Problem]) -> Value {
    json!({
        "recipe": path,
        "ok": resolved.is_some(),
        "hash": resolved.map(Resolved::hash),
        "problems": problems.iter().map(|problem| problem.to_json()).collect::<Vec<_>>(),
    })
}
