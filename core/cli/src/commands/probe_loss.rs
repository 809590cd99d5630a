//! `curricle probe loss`

use super::PluginArgs;
use crate::output;
use curricle_engine::probe::loss::LossProbe;
use curricle_engine::recipe::component_settings;
use curricle_engine::{Error, Result};
use curricle_sdk::Kind;
use serde_json::json;
use std::path::PathBuf;

/// Evaluate a loss and its derivatives on one batch.
///
/// The input is a safetensors file with `embeddings [B,D]` (f32 or f64, used as given), `labels
/// [B]` (i64), and optionally `weights [B]`, `ids [B]` (i64; rows with the same id are the same
/// sample) and tensors the loss declares, such as `proxies [C,D]`. The output has `loss`, `grad`
/// (its derivative by the embeddings) and `grad.<tensor>` for each declared trainable tensor.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the loss; `curricle list loss` shows all.
    name: String,
    /// A setting of the loss, such as `alpha=3` or `mining=hard`. Can be given many times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    plugin: PluginArgs,
    /// Safetensors file to read.
    #[arg(long = "in", value_name = "FILE", value_parser = super::existing)]
    input: PathBuf,
    /// Safetensors file to write.
    #[arg(long = "out", value_name = "FILE")]
    output: PathBuf,
    /// Decides the start of declared tensors that are not in the input, and what the loss draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Repeat forward and backward so many times and print median and minimum as JSON.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    time: usize,
    /// Threads for tensor operations. Default: one for each core.
    #[arg(long, value_name = "N")]
    threads: Option<i32>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    match args.threads {
        Some(threads) if threads < 1 => return Err(Error::Usage("`--threads` must be at least 1".to_string())),
        Some(threads) => tch::set_num_threads(threads),
        None => {}
    }
    let registry = args.plugin.registry()?;
    let settings = component_settings(Kind::Loss, &args.name, &args.sets, &registry)?;
    let probe = LossProbe { name: &args.name, settings: &settings, input: &args.input, seed: args.seed };
    let probed = probe.run(&registry, args.time)?;
    probed.write(&args.output)?;
    for name in &probed.unused {
        output::note(&format!("loss `{}` has no use for tensor `{name}` of the input", args.name));
    }
    if let (Some(min), Some(median)) = (probed.times.first(), probed.times.get(args.time / 2)) {
        let threads = tch::get_num_threads();
        let line =
            json!({"name": args.name, "steps": args.time, "threads": threads, "median_ms": median, "min_ms": min});
        anstream::println!("{line}");
    }
    Ok(())
}
