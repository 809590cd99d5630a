//! `curricle bench`

mod devices;
mod local;
mod remote;
mod show;

use super::{DeviceArgs, RecipeArgs};
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::bench::{self, Standing, TuneRecord};
use curricle_engine::device::DeviceChoice;
use curricle_recipe::{Plan, SweepRun};
use curricle_record::RunResult;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Carry out all runs that a recipe's `[sweep]` describes and compare them in one table.
///
/// Finished runs are not run again, interrupted ones go on where they stopped, and one that fails
/// does not keep the others from running. Methods with a `[tune]` have their settings searched on
/// validation classes first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Runs that another process is working on in the same folder are left to it and waited for, \
                        so the same bench may be started several times, also on several machines with a shared \
                        folder. docs/benchmarks.md has more on sweeps, devices, Slurm and searches.")]
pub struct Args {
    #[command(flatten)]
    recipe: RecipeArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// The folder that holds all runs.
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    out: PathBuf,
    /// Runs at the same time; unless `--threads` says how many each has, threads are divided among
    /// them. Default: 1, or with `--launcher
    /// slurm` as many as the cluster allows.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    jobs: Option<usize>,
    /// Run on each of these devices at the same time, e.g. `cuda:0,cuda:1`.
    #[arg(long, value_name = "DEVICE,…", value_delimiter = ',', conflicts_with_all = ["device", "jobs"])]
    devices: Vec<DeviceChoice>,
    /// Runs at the same time on each of `--devices`. Default: 1.
    #[arg(long, value_name = "N", requires = "devices", value_parser = at_least_one)]
    per_device: Option<usize>,
    /// Who carries the runs out.
    #[arg(long, value_enum, default_value = "local")]
    launcher: Launcher,
    /// Further options for the jobs of `--launcher slurm`, e.g. `"--partition=gpu --gres=gpu:1"`; may
    /// be repeated.
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// Only list what would be run, and how far it is.
    #[arg(long, conflicts_with_all = ["status", "collect"])]
    dry_run: bool,
    /// Only tell how every run stands, from the folder alone.
    #[arg(long, conflicts_with_all = ["collect", "force"])]
    status: bool,
    /// Only compare what is finished, from the folder alone.
    #[arg(long, conflicts_with = "force")]
    collect: bool,
    /// Begin every run anew, even if it is finished or half done.
    #[arg(long)]
    force: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Launcher {
    /// This process starts them as its children.
    Local,
    /// Nobody: their command lines are printed, for anything that can run them.
    Print,
    /// Slurm, as one job array that goes on after its time limit.
    Slurm,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number from 1".to_string())
}

/// Carries the command out.
pub fn run(args: &Args) -> Result<()> {
    carry_out(args, args.load()?)
}

/// Carries out a search, and whatever comes with it.
pub fn tune(args: &Args) -> Result<()> {
    let plan = args.load()?;
    if plan.searches.is_empty() {
        return Err(Error::usage(format!(
            "`{}` has no `[tune]` that says what to search; `curricle run` or `curricle bench` runs it as it is",
            args.recipe.path.display()
        )));
    }
    carry_out(args, plan)
}

fn carry_out(args: &Args, mut plan: Plan) -> Result<()> {
    args.refuse_contradictions()?;
    if !(args.status || args.collect) {
        output::warnings(plan.warnings());
    }
    // What is to be begun anew has chosen nothing yet.
    let record = if args.force { None } else { Some(bench::settle(&mut plan, &args.out)?) };
    if args.status || args.dry_run {
        let standings = standings(&plan, args)?;
        return if args.status { show::status(&standings, args.json) } else { show::list(&plan, &standings, args) };
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

    fn refuse_contradictions(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::usage(message.into()));
        match self.launcher {
            Launcher::Slurm | Launcher::Print if !self.devices.is_empty() => {
                refuse("`--devices` is for `--launcher local`; elsewhere every run has one `--device`")
            }
            Launcher::Print if self.jobs.is_some() => {
                refuse("`--jobs` says nothing to `--launcher print`: whoever runs the commands decides")
            }
            Launcher::Local | Launcher::Print if !self.sbatch.is_empty() => {
                refuse("`--sbatch` is for `--launcher slurm`")
            }
            _ => Ok(()),
        }
    }
}

/// All runs with whether they are trials: first the trials of all searches, then the runs to
/// compare. Their places in this list name their recipes in the plan's folder.
fn jobs(plan: &Plan) -> Vec<(bool, &SweepRun)> {
    let trials = plan.searches.iter().flat_map(|search| &search.trials).flat_map(|trial| &trial.runs);
    trials.map(|run| (true, run)).chain(plan.runs.iter().map(|run| (false, run))).collect()
}

fn standings(plan: &Plan, args: &Args) -> Result<Vec<Standing>> {
    let standing = |(trial, run)| Ok(Standing::new(run, trial, &bench::state_of(run, &args.out)?, &args.out));
    jobs(plan).into_iter().map(standing).collect()
}

/// Compares what is finished.
fn collect(args: &Args, plan: &Plan, record: Option<&TuneRecord>) -> Result<()> {
    let states: Vec<_> = plan.runs.iter().map(|run| bench::state_of(run, &args.out)).collect::<Result<_, _>>()?;
    let results: BTreeMap<usize, &RunResult> =
        states.iter().enumerate().filter_map(|(index, state)| Some((index, state.result()?))).collect();
    show::comparison(plan, &results, &BTreeMap::new(), record, args.json)?;
    if results.len() < plan.runs.len() {
        let message = format!("{} of {} runs are finished; `--status` tells more", results.len(), plan.runs.len());
        output::note(&message);
    }
    Ok(())
}

fn title(run: &SweepRun) -> String {
    let case = run.case.as_ref().map_or_else(String::new, |case| format!(" ({case})"));
    format!("{}{case}, seed {}", run.method, run.resolved.recipe.seed)
}
