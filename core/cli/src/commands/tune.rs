//! `curricle tune`

use super::bench;
use crate::error::Result;

/// Search the settings in a recipe's `[tune]` on validation classes, then run with the best ones.
///
/// Same as `bench` for a recipe with a `[tune]` table, with the same options. Trials are ordinary
/// runs: finished trials are skipped, interrupted ones resume. All trials and the chosen settings are
/// written to `tune.json` in the folder named after the recipe.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    bench: bench::Args,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    bench::tune(&args.bench)
}
