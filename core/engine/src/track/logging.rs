//! Logging: short lines on the console, lines with timestamps in a run's `log.txt`.

use crate::progress;
use crate::{Error, Result};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
pub use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

/// The log file of the current run, if any. The run folder is known only after logging starts.
static FILE: Mutex<Option<LogFile>> = Mutex::new(None);

/// Target of lines for a run's `log.txt` that the console shows in another way.
pub(crate) const FILE_ONLY: &str = "curricle::file_only";

struct LogFile {
    path: PathBuf,
    file: File,
}

/// Starts logging. The console shows lines of this level and above.
/// Only the first call in a process has an effect.
pub fn init(level: LevelFilter, colour: bool) {
    let console = tracing_subscriber::fmt::layer()
        .event_format(ConsoleFormat)
        .fmt_fields(ConsoleFields)
        .with_ansi(colour)
        .with_writer(|| ConsoleWriter)
        .with_filter(ours(level).with_target(FILE_ONLY, LevelFilter::OFF));
    let file =
        tracing_subscriber::fmt::layer().with_ansi(false).with_writer(FileMaker).with_filter(ours(LevelFilter::INFO));
    let _ = tracing_subscriber::registry().with(console).with(file).try_init();
}

/// Third-party libraries log at most warnings.
fn ours(level: LevelFilter) -> Targets {
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("curricle", level)
}

/// Whether text on standard error should be coloured: on a terminal, unless `NO_COLOR` is set.
pub fn colour_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::IsTerminal::is_terminal(&io::stderr()) && !set("NO_COLOR") && !dumb
}

/// Log lines go to the attached file until this is dropped.
#[derive(Debug)]
#[must_use = "the file is detached when this is dropped"]
pub struct Guard(());

impl Drop for Guard {
    fn drop(&mut self) {
        *attached() = None;
    }
}

/// Appends log lines to a run's `log.txt` as well. A process works on one run at a time, so a second
/// file replaces the first.
pub fn attach_file(path: &Path) -> Result<Guard> {
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(Error::file("write", path))?;
    *attached() = Some(LogFile { path: path.to_path_buf(), file });
    Ok(Guard(()))
}

fn attached() -> MutexGuard<'static, Option<LogFile>> {
    // A panic leaves no inconsistent state: the file is either attached or not.
    FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct FileMaker;

impl<'a> MakeWriter<'a> for FileMaker {
    type Writer = FileWriter;

    fn make_writer(&'a self) -> FileWriter {
        FileWriter
    }
}

/// Appends to the attached file. On failure, warns once and detaches it.
struct FileWriter;

impl Write for FileWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut attached = attached();
        if let Some(log) = attached.as_mut()
            && let Err(error) = log.file.write_all(line)
        {
            progress::print(&format!("warning: cannot write `{}`: {error}; logging to it stops\n", log.path.display()));
            *attached = None;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ConsoleWriter;

impl Write for ConsoleWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        progress::print(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The default fields under another type: layers whose field formatters have the same type share the
/// result, so the console's colours would end up in the file.
struct ConsoleFields;

impl<'w> FormatFields<'w> for ConsoleFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        DefaultFields::new().format_fields(writer, fields)
    }
}

/// Formats lines as `warning: message`.
struct ConsoleFormat;

impl<S, N> FormatEvent<S, N> for ConsoleFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (word, colour) = match *event.metadata().level() {
            Level::ERROR => ("error", 31),
            Level::WARN => ("warning", 33),
            Level::INFO => ("info", 32),
            _ => ("debug", 34),
        };
        match to.has_ansi_escapes() {
            true => write!(to, "\x1b[1;{colour}m{word}\x1b[0m: ")?,
            false => write!(to, "{word}: ")?,
        }
        context.format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A single test, because the subscriber and the attached file are global to the process.
    #[test]
    fn a_log_file_has_only_the_lines_of_its_run_with_time_and_without_colour() {
        init(LevelFilter::WARN, true);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.txt");
        tracing::info!("before");
        let span = tracing::info_span!("run", seed = 3).entered();
        let guard = attach_file(&path).unwrap();
        tracing::info!(loss = 0.5, "in between");
        tracing::debug!("too much");
        tracing::info!(target: "elsewhere", "not ours");
        drop(guard);
        drop(span);
        tracing::info!("after");
        let text = std::fs::read_to_string(&path).unwrap();
        let ours: Vec<_> = text.lines().filter(|line| line.contains("in between")).collect();
        assert_eq!(ours.len(), 1, "{text}");
        assert!(ours[0].starts_with("20") && ours[0].contains("INFO run{seed=3}") && ours[0].ends_with("loss=0.5"));
        for absent in ["before", "after", "too much", "not ours", "\x1b"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        let message = attach_file(&folder.path().join("no/log.txt")).unwrap_err().to_string();
        assert!(message.starts_with("cannot write `") && message.contains("no/log.txt`"), "{message}");
    }
}
