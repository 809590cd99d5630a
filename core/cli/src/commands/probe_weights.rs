//! `curricle probe weights`: one weight update on embeddings from a file.

use super::probe::ProbeArgs;
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::probe::weights::{WeightsProbe, probe};
use curricle_sdk::ComponentKind;

/// Run one weight update on embeddings from a file.
///
/// The input holds `embeddings [N,D]` (f32 or f64, used as given), `labels [N]` (i64) and
/// optionally the initial `weights [N]`, by default 1. The output holds, in f64, `weights` and, if
/// the scheme has them, `xi_pos`, `xi_neg`, `gradient` (of the objective at the result), `objective`
/// (before, after), `maw` and `sdaw`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    probed: ProbeArgs,
    /// Age λ of this update. Default: that of the scheme's first round.
    #[arg(long, value_name = "VALUE", value_parser = super::finite, allow_negative_numbers = true)]
    lambda: Option<f64>,
    /// Print the scheme's scalars as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<()> {
    let ProbeArgs { name, input, output: file, seed, .. } = &args.probed;
    let (registry, settings) = args.probed.prepare(ComponentKind::Weights)?;
    let what = WeightsProbe { name, settings: &settings, input, output: file, lambda: args.lambda, seed: *seed };
    let scalars = probe(&what, &registry)?;
    let text = if args.json {
        let table: serde_json::Map<_, _> = scalars.into_iter().map(|(name, value)| (name, value.into())).collect();
        serde_json::to_string_pretty(&table).map_err(|e| Error::failed(e.to_string()))? + "\n"
    } else {
        scalars.iter().map(|(name, value)| format!("{name:<20} {value}\n")).collect()
    };
    output::print(&text)
}
