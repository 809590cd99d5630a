//! `curricle bench`

mod devices;
mod local;
mod remote;
mod show;

use super::{DeviceArgs, RecipeArgs, at_least_one};
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::bench::{self, RunStatus, TuneRecord};
use curricle_engine::device::DeviceChoice;
use curricle_recipe::{Plan, SweepRun};
use curricle_record::RunResult;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Run all combinations of a recipe's `[sweep]` and compare them in one table.
///
/// Finished runs are skipped, interrupted runs resume where they stopped, and a failed run does not
/// stop the others. Methods with a `[tune]` table first search their settings on validation classes.
#[derive(Debug, clap::Args)]
#[command(after_help = "If another process is working on a run in the same folder, this one waits for it instead of \
                        repeating the run. You can therefore start the same bench several times, even on several \
                        machines that share a folder. See docs/benchmarks.md for sweeps, devices, Slurm and \
                        searches.")]
pub(crate) struct Args {
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// The folder that holds all runs.
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    out: PathBuf,
    /// Number of concurrent runs; the cores are divided among them unless `--threads` is given.
    /// Default: 1, or with `--launcher slurm` as many as the cluster allows.
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true)]
    jobs: Option<usize>,
    /// Devices to run on concurrently, e.g. `cuda:0,cuda:1`.
    #[arg(long, value_name = "DEVICE,…", value_delimiter = ',', conflicts_with_all = ["device", "jobs"])]
    devices: Vec<DeviceChoice>,
    /// Number of concurrent runs on each of `--devices`. Default: 1.
    #[arg(long, value_name = "N", requires = "devices", value_parser = at_least_one)]
    per_device: Option<usize>,
    /// How to start the runs.
    #[arg(long, value_enum, default_value = "local")]
    launcher: Launcher,
    /// Extra `sbatch` options for `--launcher slurm`, e.g. `"--partition=gpu --gres=gpu:1"`; may be
    /// repeated.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// List the runs and their states without running anything.
    #[arg(long, conflicts_with_all = ["status", "collect"])]
    dry_run: bool,
    /// Show the state of every run as recorded in the folder, without running anything.
    #[arg(long, conflicts_with_all = ["collect", "force"])]
    status: bool,
    /// Compare the finished runs in the folder, without running anything.
    #[arg(long, conflicts_with = "force")]
    collect: bool,
    /// Start every run over, even if it is finished or partly done.
    #[arg(long)]
    force: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Launcher {
    /// Run them as child processes.
    Local,
    /// Print the commands instead of running them.
    Print,
    /// Submit them to Slurm as one job array, which resumes after its time limit.
    Slurm,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    execute(args, args.load()?)
}

/// Runs the searches, then the runs with the chosen settings.
pub(crate) fn tune(args: &Args) -> Result<()> {
    let plan = args.load()?;
    if plan.searches.is_empty() {
        return Err(Error::usage(format!(
            "`{}` has no `[tune]` table, so there is nothing to search; use `curricle run` or `curricle bench`",
            args.recipe.path.display()
        )));
    }
    execute(args, plan)
}

fn execute(args: &Args, mut plan: Plan) -> Result<()> {
    args.check_conflicts()?;
    if !(args.status || args.collect) {
        output::warnings(plan.warnings());
    }
    // With `--force` the searches start over, so earlier choices do not apply.
    let record = if args.force { None } else { Some(bench::settle(&mut plan, &args.out)?) };
    if args.status || args.dry_run {
        let statuses = statuses(&plan, args)?;
        return if args.status { show::status(&statuses, args.json) } else { show::list(&plan, &statuses, args) };
    }
    if args.collect {
        return collect(args, &plan, record.as_ref());
    }
    match args.launcher {
        Launcher::Local => local::run(args, plan),
        Launcher::Print => remote::print(args, &plan),
        Launcher::Slurm => remote::slurm(args, &plan),
    }
}

impl Args {
    fn load(&self) -> Result<Plan> {
        let inspected = self.status || self.collect || self.dry_run;
        if inspected { self.recipe.load_sweep_to_inspect() } else { self.recipe.load_sweep() }
    }

    fn check_conflicts(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::usage(message.into()));
        match self.launcher {
            Launcher::Slurm | Launcher::Print if !self.devices.is_empty() => {
                refuse("`--devices` requires `--launcher local`; with other launchers, use `--device` for all runs")
            }
            Launcher::Print if self.jobs.is_some() => {
                refuse("`--jobs` has no effect with `--launcher print`, which runs nothing; remove it")
            }
            Launcher::Local | Launcher::Print if !self.sbatch.is_empty() => {
                refuse("`--sbatch` requires `--launcher slurm`")
            }
            _ => Ok(()),
        }
    }
}

/// All runs and whether each is a trial: first the trials of all searches, then the runs to
/// compare. A run's index in this list names its recipe in the plan's folder.
fn jobs(plan: &Plan) -> Vec<(bool, &SweepRun)> {
    let trials = plan.searches.iter().flat_map(|search| &search.trials).flat_map(|trial| &trial.runs);
    trials.map(|run| (true, run)).chain(plan.runs.iter().map(|run| (false, run))).collect()
}

fn statuses(plan: &Plan, args: &Args) -> Result<Vec<RunStatus>> {
    let standing = |(trial, run)| Ok(RunStatus::new(run, trial, &bench::state_of(run, &args.out)?, &args.out));
    jobs(plan).into_iter().map(standing).collect()
}

/// Compares the finished runs.
fn collect(args: &Args, plan: &Plan, record: Option<&TuneRecord>) -> Result<()> {
    let states: Vec<_> = plan.runs.iter().map(|run| bench::state_of(run, &args.out)).collect::<Result<_, _>>()?;
    let results: BTreeMap<usize, &RunResult> =
        states.iter().enumerate().filter_map(|(index, state)| Some((index, state.result()?))).collect();
    show::comparison(plan, &results, &BTreeMap::new(), record, args.json)?;
    if results.len() < plan.runs.len() {
        let are = if results.len() == 1 { "is" } else { "are" };
        let (finished, all) = (results.len(), show::runs(plan.runs.len()));
        let message = format!("{finished} of {all} {are} finished; use `--status` for details");
        output::note(&message);
    }
    Ok(())
}

fn title(run: &SweepRun) -> String {
    let case = run.case.as_ref().map_or_else(String::new, |case| format!(" ({case})"));
    format!("{}{case}, seed {}", run.method, run.resolved.recipe.seed)
}
