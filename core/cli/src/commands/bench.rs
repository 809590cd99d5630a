//! `curricle bench`

use super::{DeviceArgs, PluginArgs, SetArgs};
use crate::output::{self, Verbosity};
use curricle_engine::bench::{self, Event, Finished, PoolOptions};
use curricle_engine::recipe::{self, SweepRun};
use curricle_engine::report::{Comparison, Measure, Questions, Summary, format, table};
use curricle_engine::train::stop::Stop;
use curricle_engine::{Error, Result};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Carry out all runs that a recipe's `[sweep]` describes and compare them in one table.
///
/// Finished runs are not run again, interrupted ones go on where they stopped, and one that fails
/// does not keep the others from running.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recipe.
    recipe: PathBuf,
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    plugin: PluginArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// The folder that holds all runs.
    #[arg(long, default_value = "runs", value_name = "FOLDER")]
    out: PathBuf,
    /// Runs at the same time; threads are divided among them.
    #[arg(long, default_value_t = 1, value_name = "N")]
    jobs: usize,
    /// Only list what would be run.
    #[arg(long)]
    dry_run: bool,
    /// Begin every run anew, even if it is finished or half done.
    #[arg(long)]
    force: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> Result<()> {
    if args.jobs == 0 {
        return Err(Error::Usage("`--jobs` must be at least 1".into()));
    }
    let planned = recipe::load_sweep(&args.recipe, &args.set.sets, &args.plugin.registry()?)?;
    if let Some(first) = planned.first() {
        output::warnings(&first.resolved.warnings);
    }
    if args.dry_run {
        return list(&planned, args.json);
    }
    let threads = args
        .device
        .threads
        .or_else(|| (args.jobs > 1).then(|| (curricle_engine::device::physical_cores() / args.jobs).max(1)));
    let options = PoolOptions {
        program: std::env::current_exe().map_err(|e| Error::Failed(format!("cannot find this program: {e}")))?,
        out: args.out.clone(),
        device: args.device.device.to_string(),
        threads,
        jobs: args.jobs,
        force: args.force,
    };
    let stop = Stop::on_signals().map_err(|e| Error::Failed(format!("cannot listen to signals: {e}")))?;
    let mut reporter = Reporter::new(&planned);
    let finished = bench::run_all(&planned, &options, &stop, |event| reporter.show(event));
    compare(&planned, &finished, args)?;
    conclude(&planned, &finished, &args.out)
}

fn list(planned: &[SweepRun], as_json: bool) -> Result<()> {
    if as_json {
        let one = |run: &SweepRun| {
            let (recipe, hash) = (&run.resolved.recipe, run.resolved.hash());
            json!({ "method": run.method, "case": run.case, "seed": recipe.seed, "hash": hash, "recipe": recipe })
        };
        return output::json(&planned.iter().map(one).collect::<Vec<_>>());
    }
    let mut table = output::table(&["method", "case", "seed", "loss", "weights", "hash"]);
    for run in planned {
        let recipe = &run.resolved.recipe;
        let case = run.case.clone().unwrap_or_default();
        let (seed, hash) = (recipe.seed.to_string(), run.resolved.short_hash());
        table.add_row([&run.method, &case, &seed, &recipe.loss.name, &recipe.weights.name, &hash]);
    }
    output::print(&format!("{table}\n{} runs\n", planned.len()))
}

/// Says what goes on, one line for each run that ends.
struct Reporter<'a> {
    planned: &'a [SweepRun],
    done: usize,
    worked: usize,
    started: Instant,
}

impl<'a> Reporter<'a> {
    fn new(planned: &'a [SweepRun]) -> Self {
        Self { planned, done: 0, worked: 0, started: Instant::now() }
    }

    fn show(&mut self, event: &Event) {
        match event {
            Event::Started(_) => {}
            Event::Line(index, line) if output::verbosity() == Verbosity::Verbose => {
                output::note(&format!("{}: {line}", title(&self.planned[*index])));
            }
            Event::Line(..) => {}
            Event::Finished(run) => self.finished(run),
        }
    }

    fn finished(&mut self, run: &Finished) {
        self.done += 1;
        self.worked += usize::from(!run.skipped);
        let outcome = match &run.result {
            Ok(result) => {
                let recall =
                    result.trained.recall.get(&1).map_or_else(String::new, |r| format!("R@1 {:.2} %", 100.0 * r));
                let before = if run.skipped { "finished before" } else { "" };
                format!("{recall}  {:.1} s  {before}", result.seconds)
            }
            Err(Error::Interrupted(_)) => "interrupted".into(),
            Err(error) => format!("FAILED: {error}"),
        };
        let left = self.planned.len() - self.done;
        let rest = (self.worked > 0 && left > 0).then(|| {
            let each = self.started.elapsed() / self.worked as u32;
            format!("  about {} left", short(each * left as u32))
        });
        let title = title(&self.planned[run.index]);
        let line = format!("[{}/{}] {title:<32} {outcome}{}", self.done, self.planned.len(), rest.unwrap_or_default());
        output::note(line.trim_end());
    }
}

fn title(run: &SweepRun) -> String {
    let case = run.case.as_ref().map_or_else(String::new, |case| format!(" ({case})"));
    format!("{}{case}, seed {}", run.method, run.resolved.recipe.seed)
}

fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

/// Prints what the runs came to, as `curricle report` would.
fn compare(planned: &[SweepRun], finished: &[Finished], args: &Args) -> Result<()> {
    let result = |index: usize| finished.iter().find(|run| run.index == index)?.result.as_ref().ok().cloned();
    let plan = planned.iter().enumerate().map(|(index, run)| (run, result(index)));
    let comparison = Comparison::from_results(plan, &args.out);
    let mut metrics = Measure::usual(&comparison.runs);
    metrics.extend((!metrics.is_empty()).then(|| "seconds".to_string()));
    let summary = Summary::new(&comparison, &Questions { metrics, ..Default::default() })?;
    if args.json {
        let (rows, caveats) = (&summary.rows, &summary.caveats);
        return output::json(&json!({ "rows": rows, "caveats": caveats, "runs": runs(planned, finished) }));
    }
    output::print(&format::text(&table::layout("", &comparison, &summary), output::styled()))
}

fn runs(planned: &[SweepRun], finished: &[Finished]) -> Vec<serde_json::Value> {
    let one = |run: &Finished| {
        let of = &planned[run.index];
        json!({
            "method": of.method,
            "case": of.case,
            "seed": of.resolved.recipe.seed,
            "result": run.result.as_ref().ok(),
            "error": run.result.as_ref().err().map(ToString::to_string),
        })
    };
    finished.iter().map(one).collect()
}

/// The exit code: interrupted before failed before fine.
fn conclude(planned: &[SweepRun], finished: &[Finished], out: &std::path::Path) -> Result<()> {
    let interrupted = |run: &Finished| matches!(run.result, Err(Error::Interrupted(_)));
    if finished.len() < planned.len() || finished.iter().any(interrupted) {
        return Err(Error::Interrupted(out.into()));
    }
    let failed: Vec<_> =
        finished.iter().filter(|run| run.result.is_err()).map(|run| title(&planned[run.index])).collect();
    if failed.is_empty() {
        output::note(&format!("curves: tensorboard --logdir {}", out.display()));
        return Ok(());
    }
    Err(Error::Failed(format!("{} of {} runs failed: {}", failed.len(), planned.len(), failed.join("; "))))
}
