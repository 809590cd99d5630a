//! The commands, one file each.

pub mod check;
pub mod completions;
pub mod explain;
pub mod list;
pub mod schema;

/// Changes to recipes on the command line.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Change a setting of the recipe, e.g. `--set loss.alpha=3`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}
