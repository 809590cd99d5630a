//! Runs as child processes, a few at a time.
//!
//! One process per run: a crash ends one run and not the comparison, and libtorch starts clean
//! each time. A child gets the resolved recipe, so it computes exactly what was planned.

use crate::files;
use crate::recipe::SweepRun;
use crate::run::{RunFolder, RunResult};
use crate::train::stop::Stop;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Lines of a failed child's messages that are kept.
const KEPT_LINES: usize = 12;

/// How often a request to stop is looked for.
const POLL: Duration = Duration::from_millis(100);

/// Where and how the runs of a bench are carried out.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// The program to start, with the subcommand `run`.
    pub program: PathBuf,
    /// The folder that holds all runs.
    pub out: PathBuf,
    /// `--device` of every run.
    pub device: String,
    /// `--threads` of every run.
    pub threads: Option<usize>,
    /// Runs at the same time.
    pub jobs: usize,
    /// Run again what is finished.
    pub force: bool,
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    /// Its place in the plan.
    pub index: usize,
    /// What it came to, or why it failed.
    pub result: Result<RunResult>,
    /// Whether it had been finished before.
    pub skipped: bool,
}

/// What happens while runs are carried out.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run was started.
    Started(usize),
    /// A line of a run about itself.
    Line(usize, &'a str),
    /// A run is over.
    Finished(&'a Finished),
}

enum Message {
    Started(usize),
    Line(usize, String),
    Finished(Box<Finished>),
}

/// Carries out all runs, whether or not some fail, and returns them in the order of the plan.
/// After a stop no further run is started.
pub fn run_all(
    planned: &[SweepRun],
    options: &PoolOptions,
    stop: &Stop,
    mut observe: impl FnMut(&Event),
) -> Vec<Finished> {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..planned.len()).collect());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front()).filter(|_| !stop.requested());
    let mut finished = Vec::new();
    let running = Running::default();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..options.jobs.max(1) {
            let sender = sender.clone();
            let (next, running) = (&next, &running);
            scope.spawn(move || {
                while let Some(index) = next() {
                    let done = one(index, &planned[index], options, running, &sender);
                    // The receiver lives until all senders are gone.
                    let _ = sender.send(Message::Finished(Box::new(done)));
                }
            });
        }
        drop(sender);
        loop {
            // A terminal's Ctrl-C reaches the children by itself; a signal to this process alone
            // does not.
            if stop.requested() {
                running.terminate();
            }
            let message = match receiver.recv_timeout(POLL) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match message {
                Message::Started(index) => observe(&Event::Started(index)),
                Message::Line(index, line) => observe(&Event::Line(index, &line)),
                Message::Finished(run) => {
                    observe(&Event::Finished(&run));
                    finished.push(*run);
                }
            }
        }
    });
    finished.sort_by_key(|run| run.index);
    finished
}

/// The processes that are running, so that they can be told to stop.
#[derive(Default)]
struct Running(Mutex<Vec<u32>>);

impl Running {
    fn add(&self, child: &Child) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
    }

    fn remove(&self, child: &Child) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| *id != child.id());
    }

    /// Asks all of them to write a checkpoint and leave, once.
    fn terminate(&self) {
        for id in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let Ok(id) = libc::pid_t::try_from(id) else { continue };
            // SAFETY: sends a signal to a child that has not been waited for, so the number is
            // still its own.
            unsafe { libc::kill(id, libc::SIGTERM) };
        }
    }
}

fn one(
    index: usize,
    planned: &SweepRun,
    options: &PoolOptions,
    running: &Running,
    sender: &Sender<Message>,
) -> Finished {
    let folder = folder_of(planned, &options.out);
    let known = if options.force { None } else { files::read_json(&folder.join("result.json")).ok().flatten() };
    if let Some(result) = known {
        return Finished { index, result: Ok(result), skipped: true };
    }
    let _ = sender.send(Message::Started(index));
    Finished { index, result: child(index, planned, &folder, options, running, sender), skipped: false }
}

fn child(
    index: usize,
    planned: &SweepRun,
    folder: &Path,
    options: &PoolOptions,
    running: &Running,
    sender: &Sender<Message>,
) -> Result<RunResult> {
    let recipe = tempfile::Builder::new()
        .prefix(&format!("{}-", planned.resolved.recipe.name))
        .suffix(".toml")
        .tempfile()
        .map_err(|e| Error::Failed(format!("cannot create a temporary recipe: {e}")))?;
    files::write(recipe.path(), planned.resolved.to_toml().as_bytes())?;
    let mut command = Command::new(&options.program);
    command.arg("run").arg(recipe.path()).arg("--out").arg(&options.out).args(["--device", &options.device]);
    command.args(options.threads.map(|threads| format!("--threads={threads}")));
    command.args(options.force.then_some("--force"));
    command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::file("start", &options.program))?;
    running.add(&child);
    let last_lines = follow(index, &mut child, sender);
    running.remove(&child);
    let status = child.wait().map_err(|e| Error::Failed(format!("lost the run's process: {e}")))?;
    match status.code() {
        Some(0) => files::read_json(&folder.join("result.json"))?
            .ok_or_else(|| Error::Failed(format!("the run left no result in `{}`", folder.display()))),
        Some(75) => Err(Error::Interrupted(folder.into())),
        _ => Err(Error::Failed(format!("{status}\n{}", last_lines.join("\n")))),
    }
}

/// Passes the child's lines on and keeps the last ones.
fn follow(index: usize, child: &mut Child, sender: &Sender<Message>) -> Vec<String> {
    let mut kept = VecDeque::new();
    if let Some(errors) = child.stderr.take() {
        for line in BufReader::new(errors).lines().map_while(std::result::Result::ok) {
            let _ = sender.send(Message::Line(index, line.clone()));
            kept.push_back(line);
            if kept.len() > KEPT_LINES {
                kept.pop_front();
            }
        }
    }
    kept.into()
}

/// The folder a run has below `out`.
fn folder_of(run: &SweepRun, out: &Path) -> PathBuf {
    let recipe = &run.resolved.recipe;
    RunFolder::path_for(out, &recipe.name, &run.resolved.hash(), recipe.seed)
}
