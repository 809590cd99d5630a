//! `--launcher local`: runs as child processes.

use super::super::writable_folder;
use super::{Args, devices, show, title};
use crate::error::{Error, Result};
use crate::output::{self, Verbosity};
use curricle_engine::bench::{self, BenchOutcome, BenchProgress, Event, PoolOptions, TuneRecord};
use curricle_engine::progress::{self, ProgressMode};
use curricle_engine::stop::StopSignal;
use curricle_recipe::{Plan, SweepRun};
use curricle_record::Exit;
use std::collections::BTreeMap;
use std::path::Path;

/// Runs everything: first the trials of searches, then the runs to compare.
pub(super) fn run(args: &Args, mut plan: Plan) -> Result<()> {
    let slots = devices::slots(args)?;
    writable_folder(&args.out)?;
    let options = PoolOptions {
        program: std::env::current_exe().map_err(|e| Error::failed(format!("cannot find this program's path: {e}")))?,
        out: args.out.clone(),
        threads: devices::threads(args, slots.len()),
        slots,
        force: args.force,
        more: args.recipe.python_arguments(),
    };
    let stop = StopSignal::on_signals().map_err(|e| Error::failed(format!("cannot install signal handlers: {e}")))?;
    let trials: Vec<SweepRun> = super::jobs(&plan).into_iter().filter(|job| job.0).map(|job| job.1.clone()).collect();
    let mode = ProgressMode::detect(output::verbosity() == Verbosity::Quiet);
    let mut reporter =
        Reporter { progress: BenchProgress::new(mode, trials.len() + plan.runs.len()), offset: 0, width: 0 };

    let record = match trials.is_empty() {
        true => None,
        false => {
            reporter.run_all(&trials.iter().collect::<Vec<_>>(), true, &options, &stop);
            let record = bench::settle(&mut plan, &args.out)?;
            let path = record.save(&args.out)?;
            announce(&record);
            output::note(&format!("all trials are in `{}`", path.display()));
            Some(record)
        }
    };
    reporter.offset = trials.len();
    let ready: Vec<usize> = (0..plan.runs.len()).filter(|index| plan.runs[*index].search.is_none()).collect();
    let runs: Vec<_> = ready.iter().map(|index| &plan.runs[*index]).collect();
    let mut finished = reporter.run_all(&runs, false, &options, &stop);
    reporter.progress.clear();
    finished.iter_mut().for_each(|run| run.index = ready[run.index]);

    let results = finished.iter().filter_map(|run| Some((run.index, run.result.as_ref().ok()?))).collect();
    let errors: BTreeMap<usize, String> =
        finished.iter().filter_map(|run| Some((run.index, run.result.as_ref().err()?.to_string()))).collect();
    show::comparison(&plan, &results, &errors, record.as_ref(), args.json)?;
    conclude(&plan, &finished, &stop, &args.out)
}

/// Prints the settings that the searches chose.
fn announce(record: &TuneRecord) {
    for search in &record.searches {
        let case = search.case.as_ref().map_or_else(String::new, |case| format!(" ({case})"));
        let name = format!("{}{case}", search.method);
        match &search.chosen {
            Some(chosen) => output::note(&format!("{name}: chose {}", show::settings(chosen))),
            None if search.is_over() => output::note(&format!("{name}: every trial failed")),
            None => {}
        }
    }
}

/// Reports progress, with one line per finished run.
struct Reporter {
    progress: BenchProgress,
    /// Number of runs in earlier calls.
    offset: usize,
    /// Width of the column of titles.
    width: usize,
}

impl Reporter {
    fn run_all(
        &mut self,
        runs: &[&SweepRun],
        trials: bool,
        options: &PoolOptions,
        stop: &StopSignal,
    ) -> Vec<BenchOutcome> {
        let longest = runs.iter().map(|run| title(run).chars().count() + if trials { "trial ".len() } else { 0 }).max();
        self.width = longest.unwrap_or_default().min(48);
        bench::run_all(runs, options, stop, |event| self.show(runs, trials, event))
    }

    fn show(&mut self, runs: &[&SweepRun], trials: bool, event: &Event) {
        match event {
            Event::Started(index) => self.progress.started(self.offset + index),
            Event::Line(index, line) => {
                self.progress.line(self.offset + index, line);
                if output::verbosity() == Verbosity::Verbose {
                    output::note(&format!("{}: {line}", title(runs[*index])));
                }
            }
            Event::Busy(index) => {
                output::note(&format!("{}: another process is working on it; waiting", title(runs[*index])));
            }
            Event::Finished(run) => self.finished(runs[run.index], trials, run),
        }
    }

    fn finished(&mut self, planned: &SweepRun, trial: bool, run: &BenchOutcome) {
        let failed = matches!(&run.result, Err(error) if error.exit() != Exit::Interrupted);
        self.progress.finished(self.offset + run.index, failed, run.skipped);
        let outcome = match &run.result {
            Ok(result) => {
                let recall =
                    result.trained.recall.get(&1).map_or_else(String::new, |r| format!("R@1 {:.2} %", 100.0 * r));
                let before = if run.skipped { "already finished" } else { "" };
                format!("{recall}  {:.1} s  {before}", result.seconds)
            }
            Err(error) if error.exit() == Exit::Interrupted => "interrupted".into(),
            Err(error) => format!("FAILED: {error}"),
        };
        let left = self.progress.time_left().map(|left| format!("  about {} left", progress::duration(left)));
        let title = format!("{}{}", if trial { "trial " } else { "" }, title(planned));
        let (done, total) = (self.progress.done(), self.progress.total());
        let (digits, width) = (total.to_string().len(), self.width);
        let line = format!("[{done:>digits$}/{total}] {title:<width$}  {outcome}{}", left.unwrap_or_default());
        output::note(line.trim_end());
    }
}

/// The outcome of the command: interrupted takes precedence over failed, failed over success.
fn conclude(plan: &Plan, finished: &[BenchOutcome], stop: &StopSignal, out: &Path) -> Result<()> {
    let interrupted = |run: &BenchOutcome| matches!(&run.result, Err(error) if error.exit() == Exit::Interrupted);
    if stop.requested() || finished.iter().any(interrupted) {
        return Err(curricle_engine::Error::Interrupted(out.into()).into());
    }
    let mut failed: Vec<_> =
        finished.iter().filter(|run| run.result.is_err()).map(|run| reason(plan, run, out)).collect();
    let untuned = plan.runs.iter().filter(|run| run.search.is_some());
    failed.extend(untuned.map(|run| format!("{}: every trial of its search failed", title(run))));
    if failed.is_empty() {
        output::note(&format!("curves: tensorboard --logdir {}", output::in_shell(&out.join(&plan.name))));
        return Ok(());
    }
    Err(Error::failed(format!("{} of {} failed\n{}", failed.len(), show::runs(plan.runs.len()), failed.join("\n"))))
}

/// Why a run failed, in one line, and where to read more.
fn reason(plan: &Plan, run: &BenchOutcome, out: &Path) -> String {
    let planned = &plan.runs[run.index];
    let folder = bench::folder_of(planned, out);
    let written = std::fs::read_to_string(folder.error()).ok();
    let said = run.result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let why = written.as_deref().unwrap_or(&said).lines().next().unwrap_or_default().to_string();
    let log = folder.log();
    let more = if log.exists() { format!("; see `{}`", log.display()) } else { String::new() };
    format!("{}: {why}{more}", title(planned))
}
