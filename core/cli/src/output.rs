//! Output of the program: results, messages, warnings and errors.
//!
//! Results go to standard output, everything else to standard error. A closed pipe
//! (`curricle list | head`) is not an error.

use crate::error::{Error, Result};
use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use comfy_table::{Table, presets};
use curricle_engine::progress;
use curricle_engine::track::logging::{self, LevelFilter};
use curricle_recipe::{self as recipe, Problem};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

/// Options of all commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Args {
    /// Print results and errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more detailed messages.
    #[arg(short, long, global = true)]
    verbose: bool,
    /// When to use colour: `auto` uses it on terminals unless `NO_COLOR` is set.
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

/// How much to print besides results and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Nothing.
    Quiet,
    /// Messages and warnings.
    Normal,
    /// Also details.
    Verbose,
}

/// A number and its noun: `1 class`, `2 classes`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Applies the options to the whole program.
pub(crate) fn set_up(args: &Args) {
    let choice = match args.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    choice.write_global();
    let verbosity = match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let _ = VERBOSITY.set(verbosity);
    let level = match verbosity {
        Verbosity::Quiet => LevelFilter::ERROR,
        Verbosity::Normal => LevelFilter::WARN,
        Verbosity::Verbose => LevelFilter::INFO,
    };
    logging::init(level, logging::colour_wanted());
}

/// How much to print.
pub(crate) fn verbosity() -> Verbosity {
    *VERBOSITY.get().unwrap_or(&Verbosity::Normal)
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<()> {
    ignore_broken_pipe(io::stdout().lock().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()))
}

/// Whether results are printed with styles such as bold.
pub(crate) fn styled() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// Prints a result as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::failed(e.to_string()))?;
    print(&(text + "\n"))
}

fn ignore_broken_pipe(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::file("write", "standard output")(error)),
        _ => Ok(()),
    }
}

/// A path as a shell needs it, to be copied from a message.
pub(crate) fn in_shell(path: &Path) -> String {
    let shown = path.display().to_string();
    shlex::try_quote(&shown).map_or_else(|_| shown.clone(), Into::into)
}

/// Prints a message to standard error, unless `--quiet`.
pub(crate) fn note(text: &str) {
    if verbosity() > Verbosity::Quiet {
        progress::print(&format!("{text}\n"));
    }
}

/// An empty table with these column headings.
pub(crate) fn table(titles: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(titles);
    table
}

/// Shows warnings about a recipe, unless `--quiet`.
pub(crate) fn warnings<'a>(found: impl IntoIterator<Item = &'a Problem>) {
    if verbosity() > Verbosity::Quiet {
        problems(found);
    }
}

/// Shows problems in or warnings about recipes, each with its location underlined.
pub(crate) fn problems<'a>(problems: impl IntoIterator<Item = &'a Problem>) {
    let stderr = io::stderr();
    let colour = AutoStream::choice(&stderr) != ColorChoice::Never;
    let text = recipe::render(problems, width(), colour);
    let _ = stderr.lock().write_all(text.as_bytes());
}

/// Shows why a command failed.
pub(crate) fn error(error: &Error) {
    match error {
        Error::Engine(curricle_engine::Error::Recipe(found)) => problems(found.iter()),
        Error::Reported(_) => {}
        other => problems([&Problem::new(&recipe::Origin::Default, other.to_string())]),
    }
}

/// The width to wrap at: that of the terminal, but neither too narrow nor too wide to read.
pub(crate) fn width() -> usize {
    let terminal = io::stdout().is_terminal().then(|| Table::new().width()).flatten();
    terminal.map_or(100, usize::from).clamp(60, 120)
}
