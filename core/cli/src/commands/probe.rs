//! `curricle probe`

use super::{probe_loss, probe_weights};
use curricle_engine::Result;

/// Evaluate one component on tensors from a file, to compare it with a reference.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Loss(probe_loss::Args),
    Weights(probe_weights::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Loss(args) => probe_loss::run(args),
        What::Weights(args) => probe_weights::run(args),
    }
}
