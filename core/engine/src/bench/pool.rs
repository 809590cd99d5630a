//! Runs recipes as child processes, a few at a time.
//!
//! One process per run: a crash ends one run and not the whole bench, and libtorch starts clean
//! each time. A child gets the resolved recipe, so it computes exactly what was planned.

use super::state::folder_of;
use crate::stop::StopSignal;
use crate::{Error, Result};
use curricle_recipe::SweepRun;
use curricle_record::{self as record, Exit, RunFolder, RunResult, files};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of lines kept from the output of a failed child.
const KEPT_LINES: usize = 12;

/// How often to check for a stop request.
const POLL: Duration = Duration::from_millis(100);

/// How often to check a run that another process is working on.
const BUSY_POLL: Duration = Duration::from_millis(500);

/// Where and how to run the runs of a bench.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// The program to start, with the subcommand `run`.
    pub program: PathBuf,
    /// The folder that holds all runs.
    pub out: PathBuf,
    /// `--device` of the runs; one run at a time per entry.
    pub slots: Vec<String>,
    /// `--threads` of every run.
    pub threads: Option<usize>,
    /// Repeat finished runs.
    pub force: bool,
    /// Further options of every run.
    pub more: Vec<String>,
}

/// A run that has ended.
#[derive(Debug)]
pub struct BenchOutcome {
    /// Its index in the plan.
    pub index: usize,
    /// Its result or error.
    pub result: Result<RunResult>,
    /// Whether it was already finished.
    pub skipped: bool,
}

/// An event while runs are running.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run was started.
    Started(usize),
    /// A line of a run's output.
    Line(usize, &'a str),
    /// Another process is working on a run; it is waited for once nothing else is left.
    Busy(usize),
    /// A run has ended.
    Finished(&'a BenchOutcome),
}

enum Message {
    Started(usize),
    Line(usize, String),
    Busy(usize),
    Finished(Box<BenchOutcome>),
}

/// Runs everything, even if some runs fail, and returns the runs in the order of the plan. After a
/// stop request no further run is started.
pub fn run_all(
    planned: &[&SweepRun],
    options: &PoolOptions,
    stop: &StopSignal,
    mut observe: impl FnMut(&Event),
) -> Vec<BenchOutcome> {
    let queue = Queue::new(planned.len());
    let mut finished = Vec::new();
    let running = Running::default();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for device in &options.slots {
            let worker = Worker { planned, options, device, running: &running, sender: sender.clone() };
            let queue = &queue;
            scope.spawn(move || worker.work(queue, stop));
        }
        drop(sender);
        loop {
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
                Message::Busy(index) => observe(&Event::Busy(index)),
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

/// The remaining runs: first the new ones, then those that other processes were working on.
struct Queue(Mutex<(VecDeque<usize>, VecDeque<usize>)>);

impl Queue {
    fn new(runs: usize) -> Self {
        Self(Mutex::new(((0..runs).collect(), VecDeque::new())))
    }

    /// The next run, and whether it was busy before.
    fn next(&self) -> Option<(usize, bool)> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.0.pop_front().map(|index| (index, false)).or_else(|| Some((queue.1.pop_front()?, true)))
    }

    fn put_back(&self, index: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push_back(index);
    }
}

/// The running child processes, so that they can be stopped.
#[derive(Default)]
struct Running(Mutex<Vec<u32>>);

impl Running {
    fn add(&self, child: &Child) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(child.id());
    }

    fn remove(&self, child: &Child) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|id| *id != child.id());
    }

    /// Asks each of them once to write a checkpoint and exit.
    fn terminate(&self) {
        for id in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let Ok(id) = libc::pid_t::try_from(id) else { continue };
            // SAFETY: sends a signal to a child that has not been waited for, so the process id is
            // still valid.
            unsafe { libc::kill(id, libc::SIGTERM) };
        }
    }
}

/// Runs one run after another on its device.
struct Worker<'a> {
    planned: &'a [&'a SweepRun],
    options: &'a PoolOptions,
    device: &'a str,
    running: &'a Running,
    sender: Sender<Message>,
}

impl Worker<'_> {
    fn work(&self, queue: &Queue, stop: &StopSignal) {
        while let Some((index, was_busy)) = queue.next().filter(|_| !stop.requested()) {
            if was_busy {
                std::thread::sleep(BUSY_POLL);
            }
            match self.one(index) {
                Some(done) => self.send(Message::Finished(Box::new(done))),
                None => {
                    if !was_busy {
                        self.send(Message::Busy(index));
                    }
                    queue.put_back(index);
                }
            }
        }
    }

    fn send(&self, message: Message) {
        // The receiver lives until all senders are dropped.
        let _ = self.sender.send(message);
    }

    /// Runs one run; `None` if another process is working on it.
    fn one(&self, index: usize) -> Option<BenchOutcome> {
        let folder = folder_of(self.planned[index], &self.options.out);
        if !self.options.force {
            match folder.read_result() {
                Ok(Some(result)) => return Some(BenchOutcome { index, result: Ok(result), skipped: true }),
                Ok(None) => {}
                Err(error) => return Some(BenchOutcome { index, result: Err(error.into()), skipped: true }),
            }
        }
        if folder.is_locked() {
            return None;
        }
        self.send(Message::Started(index));
        match self.child(index, &folder) {
            Err(Error::Record(record::Error::Busy(_))) => None,
            result => Some(BenchOutcome { index, result, skipped: false }),
        }
    }

    fn child(&self, index: usize, folder: &RunFolder) -> Result<RunResult> {
        let (planned, options) = (self.planned[index], self.options);
        let recipe = tempfile::Builder::new()
            .prefix("curricle-")
            .suffix(".toml")
            .tempfile()
            .map_err(|e| Error::Failed(format!("cannot create a temporary recipe: {e}")))?;
        files::write(recipe.path(), planned.resolved.to_toml().as_bytes())?;
        let mut command = Command::new(&options.program);
        command.arg("run").arg(recipe.path()).arg("--out").arg(&options.out).args(["--device", self.device]);
        command.args(options.threads.map(|threads| format!("--threads={threads}")));
        command.args(options.force.then_some("--force")).args(&options.more);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Otherwise a terminal's Ctrl-C would reach the children in addition to our signal, and a
        // second signal ends a run without a checkpoint.
        command.process_group(0);
        let mut child = command.spawn().map_err(Error::file("start", &options.program))?;
        self.running.add(&child);
        let last_lines = self.follow(index, &mut child);
        self.running.remove(&child);
        let status = child.wait().map_err(|e| Error::Failed(format!("cannot wait for the run's process: {e}")))?;
        match status.code().map_or(Exit::Failed, Exit::of) {
            Exit::Success => folder
                .read_result()?
                .ok_or_else(|| Error::Failed(format!("the run wrote no result to `{}`", folder.path().display()))),
            Exit::Busy => Err(record::Error::Busy(folder.path().into()).into()),
            Exit::Interrupted => Err(Error::Interrupted(folder.path().into())),
            Exit::Failed | Exit::Usage => Err(Error::Failed(format!("{status}\n{}", last_lines.join("\n")))),
        }
    }

    /// Forwards the child's output and keeps the last lines.
    fn follow(&self, index: usize, child: &mut Child) -> Vec<String> {
        let mut kept = VecDeque::new();
        if let Some(errors) = child.stderr.take() {
            // A component may print bytes that are not UTF-8. A run whose output is no longer read would fail to write.
            for line in BufReader::new(errors).split(b'\n').map_while(std::result::Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_string();
                self.send(Message::Line(index, line.clone()));
                kept.push_back(line);
                if kept.len() > KEPT_LINES {
                    kept.pop_front();
                }
            }
        }
        kept.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_not_utf_8_does_not_end_the_output() {
        let options = PoolOptions {
            program: PathBuf::new(),
            out: PathBuf::new(),
            slots: Vec::new(),
            threads: None,
            force: false,
            more: Vec::new(),
        };
        let (sender, receiver) = channel();
        let worker = Worker { planned: &[], options: &options, device: "cpu", running: &Running::default(), sender };
        let script = r"printf 'first\nb\377d\nlast\n' >&2";
        let mut child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(worker.follow(0, &mut child), ["first", "b\u{fffd}d", "last"]);
        assert!(child.wait().unwrap().success());
        drop(worker);
        assert_eq!(receiver.iter().count(), 3);
    }
}
