//! The commands, one file each.

pub mod bench;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod eval;
pub mod explain;
pub mod list;
pub mod probe;
mod probe_loss;
mod probe_weights;
pub mod run;
pub mod schema;

use curricle_engine::device::DeviceChoice;

/// Changes to recipes on the command line.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Change a setting of the recipe, e.g. `--set loss.alpha=3`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// Where to compute.
#[derive(Debug, clap::Args)]
pub struct DeviceArgs {
    /// Where to compute: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Threads for computing on the CPU. Default: one for each core.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}
