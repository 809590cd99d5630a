//! `curricle probe`

use super::{PluginArgs, probe_loss, probe_weights};
use crate::error::Result;
use curricle_engine::device;
use curricle_engine::{Registry, component_settings};
use curricle_sdk::ComponentKind;
use std::path::PathBuf;

/// Evaluate one component on tensors from a file, to compare it with a reference.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Loss(probe_loss::Args),
    Weights(probe_weights::Args),
}

/// The component to probe, its settings and its input.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// Name of the component; `curricle list` shows all.
    #[arg(add = clap_complete::ArgValueCompleter::new(crate::completing::probed))]
    pub name: String,
    /// Override one of its settings, e.g. `alpha=3` or `solver.name=doubly_stochastic`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    plugin: PluginArgs,
    /// Safetensors file to read.
    #[arg(long = "in", value_name = "FILE", value_parser = super::existing)]
    pub input: PathBuf,
    /// Safetensors file to write.
    #[arg(long = "out", value_name = "FILE")]
    pub output: PathBuf,
    /// Seed of random draws and of the initial values of declared tensors that are not in the input.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::whole_number::<u64>)]
    pub seed: u64,
    /// Number of CPU threads. Default: one per core.
    #[arg(long, value_name = "N", value_parser = super::at_least_one, allow_negative_numbers = true)]
    threads: Option<usize>,
}

impl ProbeArgs {
    /// Sets the number of threads; returns the registry and the component's settings with defaults.
    pub(crate) fn prepare(&self, kind: ComponentKind) -> Result<(Registry, serde_json::Value)> {
        device::set_threads(self.threads)?;
        let registry = self.plugin.registry()?;
        let settings = component_settings(kind, &self.name, &self.sets, &registry)?;
        Ok((registry, settings))
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Loss(args) => probe_loss::run(args),
        What::Weights(args) => probe_weights::run(args),
    }
}
