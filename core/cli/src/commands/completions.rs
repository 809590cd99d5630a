//! `curricle completions`

use crate::error::Result;
use crate::{Cli, output};
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example: curricle completions bash > ~/.local/share/bash-completion/completions/curricle")]
pub(crate) struct Args {
    /// Shell to complete in.
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "curricle", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
