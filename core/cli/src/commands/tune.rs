//! `curricle tune`

use super::bench;
use crate::error::Result;

/// Search the settings that a recipe's `[tune]` names on validation classes, then run with the
/// chosen ones.
///
/// The same as `bench` for a recipe with a `[tune]`, with the same options. Trials are ordinary
/// runs: finished ones are not run again, interrupted ones go on. What was tried and chosen is
/// written to `tune.json` in the folder of the recipe's name.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    bench: bench::Args,
}

/// Carries the command out.
pub fn run(args: &Args) -> Result<()> {
    bench::tune(&args.bench)
}
