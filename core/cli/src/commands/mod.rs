//! The commands, one file each.

pub mod audit;
mod audit_recipe;
pub mod bench;
pub mod check;
pub mod completions;
pub mod data;
pub mod doctor;
pub mod embed;
pub mod eval;
pub mod explain;
pub mod export;
pub mod list;
pub mod plugin;
pub mod plugin_check;
pub mod plugin_list;
pub mod plugin_new;
pub mod probe;
mod probe_loss;
mod probe_weights;
pub mod report;
pub mod run;
pub mod schema;
pub mod tune;

use crate::error::Result;
use curricle_engine::Experiment;
use curricle_engine::Registry;
use curricle_engine::device::DeviceChoice;
use curricle_engine::preflight::WithoutFiles;
use curricle_recipe::{self as recipe, Plan};
use std::path::PathBuf;

/// Parses the path of an input, which must exist, so that a mistyped path is a usage error.
fn existing(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.exists() { Ok(path) } else { Err("no such file or folder".into()) }
}

/// Plugins given on the command line.
#[derive(Debug, clap::Args)]
pub struct PluginArgs {
    /// Load components from a plugin library, like `plugins.paths` in a recipe; may be repeated.
    #[arg(long = "plugin", value_name = "PATH")]
    plugins: Vec<PathBuf>,
}

impl PluginArgs {
    /// The built-in components and those of the plugins.
    pub fn registry(&self) -> Result<Registry> {
        Ok(Registry::with_plugins(&self.plugins)?)
    }
}

/// Settings overridden on the command line.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Override a setting of the recipe, e.g. `--set loss.alpha=3`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// A recipe and its overrides.
#[derive(Debug, clap::Args)]
pub struct RecipeArgs {
    /// Recipe file.
    #[arg(value_name = "RECIPE")]
    path: PathBuf,
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    plugin: PluginArgs,
}

impl RecipeArgs {
    /// The recipe of one run; `more` is applied after the overrides of the command line.
    pub fn load(&self, more: Option<String>) -> Result<Experiment> {
        let sets: Vec<String> = self.set.sets.iter().cloned().chain(more).collect();
        Ok(Experiment::load(&self.path, &sets, &self.plugin.registry()?)?)
    }

    /// The recipes of a sweep.
    pub fn load_sweep(&self) -> Result<Plan> {
        Ok(recipe::load_sweep(&self.path, &self.set.sets, &self.plugin.registry()?)?)
    }

    /// The recipes of a sweep that is only inspected: its data need not be on this machine.
    pub fn load_sweep_to_inspect(&self) -> Result<Plan> {
        Ok(recipe::load_sweep(&self.path, &self.set.sets, &WithoutFiles(self.plugin.registry()?))?)
    }
}

/// Device and threads.
#[derive(Debug, clap::Args)]
pub struct DeviceArgs {
    /// Device to compute on: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Number of CPU threads. Default: one per core.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}
