//! `curricle plugin`

use super::{plugin_check, plugin_list, plugin_new};
use crate::error::Result;

/// List, check and create plugins: libraries with your own components.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(plugin_list::Args),
    Check(plugin_check::Args),
    New(plugin_new::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::List(args) => plugin_list::run(args),
        Command::Check(args) => plugin_check::run(args),
        Command::New(args) => plugin_new::run(args),
    }
}
