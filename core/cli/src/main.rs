//! The `curricle` program: parses the command line, calls the engine and prints the results.

mod commands;
mod completing;
mod error;
mod output;

// The built-in components register themselves, but only if their crates are linked.
use curricle_losses as _;
use curricle_samplers as _;
use curricle_weights as _;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use commands::{
    audit, bench, check, completions, data, doctor, embed, eval, explain, export, init, list, plugin, probe, report,
    run, schema, tune,
};
use curricle_engine::caught;
use curricle_recipe::nearest;
use curricle_record::Exit;
use error::{Error, Result};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;

/// The version of the program and of the only libtorch it works with.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (for libtorch {})", env!("CARGO_PKG_VERSION"), curricle_sdk::abi::LIBTORCH_VERSION));

/// Deep metric learning with noisy labels: recipes in, benchmarks out.
#[derive(Debug, Parser)]
#[command(name = "curricle", version = VERSION.as_str(), arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: output::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Run(run::Args),
    Bench(bench::Args),
    Report(report::Args),
    Tune(tune::Args),
    Audit(audit::Args),
    Check(check::Args),
    Explain(explain::Args),
    Data(data::Args),
    List(list::Args),
    Plugin(plugin::Args),
    Schema(schema::Args),
    Eval(eval::Args),
    Embed(embed::Args),
    Export(export::Args),
    Probe(probe::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    // Answers the shell while a command line is being typed, and then exits.
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let cli = Cli::try_parse().unwrap_or_else(|error| suggest_command(suggest_set(error, std::env::args_os())).exit());
    output::set_up(&cli.output);
    // The inner result is the command's own; the outer one is a panic turned into an error.
    match caught("running the command", || Ok(dispatch(&cli.command))).map_err(Error::from).and_then(|result| result) {
        Ok(()) => ExitCode::from(Exit::Success.code()),
        Err(error) => {
            output::error(&error);
            ExitCode::from(error.exit().code())
        }
    }
}

/// Explains `--set` to users of hydra, who type `optimizer.lr=0.1` after the recipe, and of argparse, who type
/// `--epochs 3` or `--optimizer.lr=0.1`.
fn suggest_set(mut error: clap::Error, line: impl IntoIterator<Item = impl Into<OsString>>) -> clap::Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let suggestion = if !takes_settings(line) {
        return error;
    } else if !argument.starts_with('-') && argument.contains('=') {
        format!("to override a setting of the recipe, use '--set {}'", argument.trim_start_matches('+'))
    } else if error.get(ContextKind::SuggestedArg).is_some() {
        return error;
    } else if let Some(setting) = argument.strip_prefix("--").filter(|argument| argument.contains('.')) {
        format!("to override a setting of the recipe, use '--set {setting}=VALUE'")
    } else if argument.starts_with("--") {
        "settings of the recipe are given as '--set train.epochs=3'".to_string()
    } else {
        return error;
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![suggestion.into()]));
    error
}

/// Whether the command in a command line has the option `--set`.
fn takes_settings(line: impl IntoIterator<Item = impl Into<OsString>>) -> bool {
    let mut command = Cli::command();
    for word in line.into_iter().skip(1) {
        if let Some(inner) = command.find_subcommand(word.into()).cloned() {
            command = inner;
        }
    }
    command.get_arguments().any(|argument| argument.get_long() == Some("set"))
}

/// Corrects transposed letters, which clap does not recognise: `rnu`.
fn suggest_command(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
        && error.get(ContextKind::SuggestedSubcommand).is_none()
    {
        let program = Cli::command();
        if let Some(nearest) = nearest(typed, program.get_subcommands().map(clap::Command::get_name)) {
            let found = ContextValue::Strings(vec![nearest.to_string()]);
            error.insert(ContextKind::SuggestedSubcommand, found);
        }
    }
    error
}

fn dispatch(command: &Command) -> Result<()> {
    match command {
        Command::Init(args) => init::run(args),
        Command::Run(args) => run::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Report(args) => report::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Data(args) => data::run(args),
        Command::List(args) => list::run(args),
        Command::Plugin(args) => plugin::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Embed(args) => embed::run(args),
        Command::Export(args) => export::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => completions::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_unknown_option_explains_set_where_there_are_settings() {
        let said = |line: &[&str]| suggest_set(Cli::try_parse_from(line).unwrap_err(), line).to_string();
        for command in ["run", "bench", "explain"] {
            let text = said(&["curricle", command, "r.toml", "--epochs", "3"]);
            assert!(text.contains("'--set train.epochs=3'"), "{text}");
        }
        assert!(!said(&["curricle", "report", "runs", "--epochs"]).contains("train.epochs"));
        assert!(said(&["curricle", "run", "r.toml", "--sets"]).contains("'--set'"));
    }

    #[test]
    fn transposed_letters_in_a_command_are_corrected() {
        let error = Cli::try_parse_from(["curricle", "rnu", "r.toml"]).unwrap_err();
        let text = suggest_command(error).to_string();
        assert!(text.contains("'run'"), "{text}");
    }

    #[test]
    fn a_setting_after_the_recipe_suggests_set() {
        let line = ["curricle", "run", "r.toml", "+optimizer.lr=0.1"];
        let text = suggest_set(Cli::try_parse_from(line).unwrap_err(), line).to_string();
        assert!(text.contains("use '--set optimizer.lr=0.1'"), "{text}");
    }
}
