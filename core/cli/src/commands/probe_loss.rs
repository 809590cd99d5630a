//! `curricle probe loss`

use super::probe::ProbeArgs;
use crate::error::Result;
use crate::output;
use curricle_engine::probe::loss::LossProbe;
use curricle_sdk::ComponentKind;
use serde_json::json;

/// Evaluate a loss and its gradients on one batch.
///
/// The input is a safetensors file with `embeddings [B,D]` (f32 or f64, used as given), `labels
/// [B]` (i64), and optionally `weights [B]`, `ids [B]` (i64; rows with the same id are the same
/// sample) and tensors the loss declares, such as `proxies [C,D]`. The output has `loss`, `grad` (its
/// gradient with respect to the embeddings) and `grad.<tensor>` for each declared trainable tensor.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    probed: ProbeArgs,
    /// Time N forward and backward passes and print median and minimum as JSON.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = super::whole_number::<usize>)]
    time: usize,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<()> {
    let ProbeArgs { name, input, output, seed, .. } = &args.probed;
    let (registry, settings) = args.probed.prepare(ComponentKind::Loss)?;
    let probed = LossProbe { name, settings: &settings, input, seed: *seed }.run(&registry, args.time)?;
    probed.write(output)?;
    for tensor in &probed.unused {
        output::note(&format!("loss `{name}` does not use tensor `{tensor}` of the input"));
    }
    if let (Some(min), Some(median)) = (probed.times.first(), probed.times.get(args.time / 2)) {
        let threads = tch::get_num_threads();
        let line = json!({"name": name, "steps": args.time, "threads": threads, "median_ms": median, "min_ms": min});
        output::print(&format!("{line}\n"))?;
    }
    Ok(())
}
