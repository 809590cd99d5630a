//! The curricle program.
mod output;
mod commands { pub mod run; }
use curricle_losses as _; use curricle_samplers as _; use curricle_weights as _;
use clap::Parser;
#[derive(Parser)]
enum Cli { Run(commands::run::Args) }
fn main() {
    let Cli::Run(args) = Cli::parse();
    curricle_engine::track::logging::init(0, false);
    if let Err(e) = commands::run::run(&args, false) { eprintln!("{:?}", miette::Report::msg(e.to_string())); std::process::exit(e.exit_code().into()); }
}
