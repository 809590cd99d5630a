//! `--launcher print` and `--launcher slurm`: runs that are started elsewhere.

use super::{Args, jobs, show};
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::bench::{self, Launch};
use curricle_recipe::{Plan, SweepRun};
use curricle_record::RunState;
use serde_json::json;
use std::path::Path;

/// Prints one command for each remaining run.
pub(super) fn print(args: &Args, plan: &Plan) -> Result<()> {
    let launch = launch(args)?;
    let open = open(plan, args)?;
    let recipes = launch.write_plan(&launch.plan_folder(&plan.name), &open)?;
    let commands: Vec<_> = recipes.iter().map(|recipe| launch.command(recipe)).collect::<Result<_, _>>()?;
    match args.json {
        true => output::json(&json!({ "commands": commands }))?,
        false => output::print(&commands.iter().map(|command| format!("{command}\n")).collect::<String>())?,
    }
    note_remaining(plan, open.len());
    Ok(())
}

/// Submits all remaining runs as a job array.
pub(super) fn slurm(args: &Args, plan: &Plan) -> Result<()> {
    let launch = launch(args)?;
    let open = open(plan, args)?;
    if open.is_empty() {
        note_remaining(plan, 0);
        return Ok(());
    }
    let places: Vec<_> = open.iter().map(|(place, _)| *place).collect();
    let submission = bench::submission(&launch, &plan.name, &places, args.jobs, &args.sbatch)?;
    launch.write_plan(&launch.plan_folder(&plan.name), &open)?;
    let submitted = submission.submit()?;
    match args.json {
        true => output::json(&json!({ "jobs": submitted, "script": submission.path, "runs": open.len() }))?,
        false => output::print(&format!("submitted {} as job {}\n", show::runs(open.len()), submitted.join(", ")))?,
    }
    let again =
        |flag: &str| format!("curricle bench {} --out {} {flag}", args.recipe.path.display(), args.out.display());
    output::note(&format!("status: {}", again("--status")));
    output::note(&format!("comparison: {}", again("--collect")));
    note_remaining(plan, open.len());
    Ok(())
}

/// What `--launcher slurm` would submit.
pub(super) fn preview(args: &Args, plan: &Plan) -> Result<String> {
    let places: Vec<_> = open(plan, args)?.iter().map(|(place, _)| *place).collect();
    let submission = bench::submission(&launch(args)?, &plan.name, &places, args.jobs, &args.sbatch)?;
    let arrays: Vec<_> = submission.arrays.iter().map(|(_, tasks)| format!("--array={tasks}")).collect();
    Ok(format!("{}\n\n{}", arrays.join("\n"), submission.script))
}

/// The runs that are neither finished nor in progress, with their indices among all jobs.
fn open<'p>(plan: &'p Plan, args: &Args) -> Result<Vec<(usize, &'p SweepRun)>> {
    let mut open = Vec::new();
    for (place, (_, run)) in jobs(plan).into_iter().enumerate() {
        let state = bench::state_of(run, &args.out)?;
        let again = args.force && !matches!(state, RunState::Waiting);
        if state.is_open() || again {
            open.push((place, run));
        }
    }
    Ok(open)
}

fn launch(args: &Args) -> Result<Launch> {
    // The commands may be run from another folder.
    let absolute = |path: &Path| std::path::absolute(path).map_err(Error::file("find", path));
    Ok(Launch {
        program: std::env::current_exe().map_err(|e| Error::failed(format!("cannot find this program's path: {e}")))?,
        out: absolute(&args.out)?,
        device: args.device.device.to_string(),
        threads: args.device.threads,
        force: args.force,
        more: args.recipe.python_arguments(),
    })
}

fn note_remaining(plan: &Plan, open: usize) {
    let waiting = plan.runs.iter().filter(|run| run.search.is_some()).count();
    if waiting > 0 {
        let runs = show::runs(waiting);
        output::note(&format!("{runs} must wait for the trials; repeat this command when the trials are finished"));
    } else if open == 0 {
        output::note(&format!("nothing to start: {} finished or in progress", show::runs(plan.runs.len())));
    }
}
