//! The process that serves a Python file.

use super::interpreter::Interpreter;
use super::memory::SharedMemory;
use super::output::{Output, SHOWN_LINES, line_in};
use curricle_sdk::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The program of the process, which it reads from the shared memory, so that lists of processes stay readable.
const SOURCE: &str = include_str!("worker.py");
///
/// The current folder is not searched for modules: a `random.py` in it would hide Python's own.
const RUN_SOURCE: &str =
    "import sys; sys.path[:] = filter(None, sys.path); exec(open(int(sys.argv[2]), 'rb', closefd=False).read())";

/// How long to poll for a reply before sleeping until it comes.
const SOON: Duration = Duration::from_millis(2);

/// How long a process that has closed its socket, or was told to show where it is, may take to do so.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why the process did not do what it was asked to.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no such interpreter.
    NoInterpreter { program: String, error: io::Error },
    /// The interpreter has no torch.
    NoTorch { program: String, error: PythonError },
    /// Python raised an exception, or the loss broke a rule.
    Python(PythonError),
    /// A setting has a value of the wrong type.
    Setting { key: String, message: String },
    /// The process ended or was ended.
    Ended(Ending),
}

/// Why and where the process ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    what: String,
    /// What to do, if that does not depend on the cause.
    help: Option<&'static str>,
    /// The last lines that it printed.
    printed: Vec<String>,
}

impl Ending {
    fn last_lines(&self) -> String {
        self.printed.iter().fold(String::new(), |text, line| text + "\n  " + line)
    }
}

/// An error in Python code.
#[derive(Debug, Deserialize)]
pub(super) struct PythonError {
    /// `my_losses.py:12`
    at: String,
    what: String,
    traceback: String,
}

impl PythonError {
    fn last_lines(&self) -> String {
        let lines: Vec<_> = self.traceback.trim_end().lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().fold(String::new(), |text, line| text + "\n  " + line)
    }
}

impl Failure {
    /// What is wrong with the plugin, and what to do.
    pub(super) fn refusal(self) -> (String, String) {
        let another = "activate the environment that has torch, or name its interpreter with `--python`";
        match self {
            Self::NoInterpreter { program, error } => {
                (format!("needs Python, but `{program}` cannot be started: {error}"), another.into())
            }
            Self::NoTorch { program, error } => {
                let PythonError { at, what, .. } = error;
                // A line of torch, or of a module that hides one of its modules.
                let place = if at.contains(':') { format!("{at}: ") } else { String::new() };
                (format!("needs torch, but `{program}` cannot import it: {place}{what}"), another.into())
            }
            Self::Python(error) => {
                let lines = error.last_lines();
                let what = format!("cannot be used: {}: {}", error.at, error.what);
                (what, if lines.is_empty() { "correct the file".into() } else { format!("correct the file:{lines}") })
            }
            Self::Setting { key, message } => (format!("refuses `{key}`: {message}"), "correct the file".into()),
            Self::Ended(ending) => {
                let help = ending.help.unwrap_or("correct the file, or name another interpreter with `--python`");
                let colon = if ending.printed.is_empty() { "" } else { ":" };
                (format!("cannot be used: {}", ending.what), format!("{help}{colon}{}", ending.last_lines()))
            }
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Setting { key, message } => Error::setting(key, message),
            Failure::Python(error) => Error::other(format!("{}: {}{}", error.at, error.what, error.last_lines())),
            Failure::Ended(ending) => {
                let help = ending.help.map_or_else(String::new, |help| format!("; {help}"));
                Error::other(format!("{}{help}{}", ending.what, ending.last_lines()))
            }
            other => {
                let (what, fix) = other.refusal();
                Error::other(format!("{what}; {fix}"))
            }
        }
    }
}

/// A running process. Dropping it closes the socket, which ends the process.
#[derive(Debug)]
pub(super) struct Worker(Mutex<Process>);

impl Worker {
    /// Starts the process and waits until it has loaded the file.
    pub(super) fn start<T: DeserializeOwned>(path: &Path, python: &Interpreter) -> Result<(Self, T), Failure> {
        let mut process = Process::start(path, python)?;
        let description = process.reply("loading the file")?;
        process.set_time_limit(python.time_limit)?;
        let description = serde_json::from_value(description).map_err(|e| process.confused(&e))?;
        Ok((Self(Mutex::new(process)), description))
    }

    /// Exclusive use of the process and its memory.
    pub(super) fn lock(&self) -> MutexGuard<'_, Process> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process and what connects to it.
#[derive(Debug)]
pub(super) struct Process {
    path: PathBuf,
    program: String,
    child: Child,
    socket: BufReader<UnixStream>,
    pub(super) memory: SharedMemory,
    output: Arc<Output>,
    time_limit: Duration,
    /// Whether the last reply came within [`SOON`].
    replies_soon: bool,
    /// Why the process ended, for all later calls.
    ended: Option<Ending>,
}

impl Process {
    /// A process that is loading the file, for which it has at least the default time limit.
    fn start(path: &Path, python: &Interpreter) -> Result<Self, Failure> {
        let program = python.program.to_string_lossy().into_owned();
        let failed = |error| Failure::NoInterpreter { program: program.clone(), error };
        let memory = SharedMemory::with_text(SOURCE).map_err(failed)?;
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let time_limit = python.time_limit.max(Interpreter::TIME_LIMIT);
        ours.set_read_timeout(Some(time_limit)).map_err(failed)?;
        let mut command = Command::new(&python.program);
        command.args(["-u", "-c", RUN_SOURCE]).arg(path).arg(memory.descriptor().to_string());
        command.stdin(std::os::fd::OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C in a terminal is for this program, which lets the step finish.
        command.process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        // The command holds the child's end of the socket; only the child may keep it open.
        drop(command);
        memory.stop_inheriting().map_err(failed)?;
        let output = Arc::new(Output::default());
        if let Some(errors) = child.stderr.take() {
            output.follow(errors, path);
        }
        let socket = BufReader::new(ours);
        Ok(Self {
            path: path.into(),
            program,
            child,
            socket,
            memory,
            output,
            time_limit,
            replies_soon: false,
            ended: None,
        })
    }

    fn set_time_limit(&mut self, limit: Duration) -> Result<(), Failure> {
        let set = self.socket.get_ref().set_read_timeout(Some(limit));
        self.time_limit = limit;
        set.map_err(|error| Failure::NoInterpreter { program: self.program.clone(), error })
    }

    /// Sends a request and returns the reply. `during` names it for messages, e.g. "`forward`".
    pub(super) fn call(&mut self, during: &str, request: &Value) -> Result<Value, Failure> {
        if let Some(ended) = &self.ended {
            return Err(Failure::Ended(ended.clone()));
        }
        let line = format!("{request}\n");
        // If the process is gone, reading finds that out and says why.
        let _ = self.socket.get_mut().write_all(line.as_bytes());
        self.reply(during)
    }

    /// Sends a request about tensors and returns the names of the ones it changed.
    pub(super) fn compute(&mut self, during: &str, mut request: Value) -> Result<Vec<String>, Error> {
        request["threads"] = tch::get_num_threads().into();
        let mut reply = self.call(during, &request)?;
        serde_json::from_value(reply["changed"].take()).map_err(|e| self.confused(&e).into())
    }

    /// Polls for the reply if the last one came soon: sleeping and waking up takes longer than many losses. Leaves the
    /// processor to others meanwhile, such as the process itself.
    fn poll(&self) {
        let start = Instant::now();
        while self.replies_soon && start.elapsed() < SOON {
            let mut replied = [PollFd::new(self.socket.get_ref(), PollFlags::IN)];
            if !matches!(poll(&mut replied, Some(&Timespec::default())), Ok(0)) {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn reply(&mut self, during: &str) -> Result<Value, Failure> {
        let start = Instant::now();
        self.poll();
        let mut line = Vec::new();
        let read = self.socket.read_until(b'\n', &mut line);
        self.replies_soon = start.elapsed() < SOON;
        match read {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(self.hangs(during));
            }
            _ => return Err(self.has_ended(during)),
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Reply {
            NoTorch { no_torch: PythonError, python: String },
            Error { error: PythonError },
            Setting { setting: String, message: String },
            Done(Value),
        }
        match serde_json::from_slice(&line).map_err(|e| self.confused(&e))? {
            Reply::Done(value) => Ok(value),
            Reply::Error { error } => Err(Failure::Python(error)),
            Reply::Setting { setting, message } => Err(Failure::Setting { key: setting, message }),
            Reply::NoTorch { no_torch, python } => {
                let program = if python.is_empty() { self.program.clone() } else { python };
                Err(Failure::NoTorch { program, error: no_torch })
            }
        }
    }

    /// The process did not answer in time: asks it where it is, and ends it.
    fn hangs(&mut self, during: &str) -> Failure {
        if let Ok(id) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: the child has not been waited for, so its process id is still valid. Python shows its traceback.
            unsafe { libc::kill(id, libc::SIGUSR1) };
        }
        self.output.wait_for(LAST_WORDS, |lines| line_in(&self.path, lines).is_some());
        let _ = self.child.kill();
        let _ = self.child.wait();
        let seconds = self.time_limit.as_secs_f64();
        let what = format!("{during} took longer than {seconds} s, and its process was ended");
        self.end(&what, Some("if that is normal, raise `--python-timeout`"))
    }

    /// The process closed its socket.
    fn has_ended(&mut self, during: &str) -> Failure {
        let deadline = Instant::now() + LAST_WORDS;
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(status)) => break status.to_string(),
                _ => break "it closed the connection".into(),
            }
        };
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.output.wait_for(LAST_WORDS, |_| false);
        self.end(&format!("its process ended during {during} ({status})"), None)
    }

    /// A reply that is not one.
    fn confused(&mut self, error: &serde_json::Error) -> Failure {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.end(&format!("its process sent something else than a reply: {error}"), None)
    }

    fn end(&mut self, what: &str, help: Option<&'static str>) -> Failure {
        let printed = self.output.last_lines();
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let line = line_in(&self.path, &printed).map_or_else(String::new, |line| format!(":{line}"));
        let ending = Ending { what: format!("{file}{line}: {what}"), help, printed };
        self.ended = Some(ending.clone());
        Failure::Ended(ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interpreter_is_named() {
        let python = Interpreter { program: "no-such-python".into(), ..Interpreter::default() };
        let failure = Worker::start::<Value>(Path::new("x.py"), &python).unwrap_err();
        let (what, fix) = failure.refusal();
        assert!(what.starts_with("needs Python, but `no-such-python` cannot be started"), "{what}");
        assert!(fix.contains("`--python`"), "{fix}");
    }

    #[test]
    fn a_program_that_is_not_python_is_an_error() {
        let python = Interpreter { program: "true".into(), ..Interpreter::default() };
        let start = || Worker::start::<Value>(Path::new("x.py"), &python).unwrap_err();
        let message = Error::from(start()).to_string();
        assert!(message.starts_with("x.py: its process ended during loading the file (exit status: 0)"), "{message}");
        let (_, fix) = start().refusal();
        assert_eq!(fix, "correct the file, or name another interpreter with `--python`");
    }

    #[test]
    fn a_file_that_takes_long_to_load_is_not_called_wrong() {
        let help = Some("if that is normal, raise `--python-timeout`");
        let ending = Ending { what: "x.py:3: took long".into(), help, printed: vec!["  File \"x.py\", line 3".into()] };
        let (what, fix) = Failure::Ended(ending).refusal();
        assert_eq!(what, "cannot be used: x.py:3: took long");
        assert_eq!(fix, "if that is normal, raise `--python-timeout`:\n    File \"x.py\", line 3");
    }
}
