//! The commands, one file each.

pub(crate) mod audit;
mod audit_recipe;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod init;
mod init_recipe;
pub(crate) mod list;
pub(crate) mod plugin;
pub(crate) mod plugin_check;
pub(crate) mod plugin_list;
pub(crate) mod plugin_new;
pub(crate) mod probe;
mod probe_loss;
mod probe_weights;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod tune;

use crate::completing;
use crate::error::Result;
use clap_complete::ArgValueCompleter;
use curricle_engine::Experiment;
use curricle_engine::Registry;
use curricle_engine::device::DeviceChoice;
use curricle_engine::preflight::WithoutFiles;
use curricle_recipe::{self as recipe, Plan, Resolved};
use std::path::PathBuf;

/// Parses the path of an input, which must exist, so that a mistyped path is a usage error.
fn existing(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.exists() { Ok(path) } else { Err("no such file or folder".into()) }
}

/// Plugins given on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct PluginArgs {
    /// Load components from a plugin library, like `plugins.paths` in a recipe; may be repeated.
    #[arg(long = "plugin", value_name = "PATH")]
    plugins: Vec<PathBuf>,
}

impl PluginArgs {
    /// The built-in components and those of the plugins.
    pub(crate) fn registry(&self) -> Result<Registry> {
        Ok(Registry::with_plugins(&self.plugins)?)
    }
}

/// Settings overridden on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// Override a setting of the recipe, e.g. `--set loss.alpha=3`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", add = ArgValueCompleter::new(completing::settings))]
    pub sets: Vec<String>,
}

/// A recipe and its overrides.
#[derive(Debug, clap::Args)]
pub(crate) struct RecipeArgs {
    /// Recipe file, or a built-in recipe such as `quickstart`; see `curricle list recipes`.
    #[arg(value_name = "RECIPE", add = ArgValueCompleter::new(completing::recipes))]
    path: PathBuf,
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    plugin: PluginArgs,
}

impl RecipeArgs {
    /// The recipe of one run; `more` is applied after the overrides of the command line.
    pub(crate) fn load(&self, more: Option<String>) -> Result<Experiment> {
        let sets: Vec<String> = self.set.sets.iter().cloned().chain(more).collect();
        Ok(Experiment::load(&self.path, &sets, &self.plugin.registry()?)?)
    }

    /// The recipe of one run that is only looked at: the files it names need not exist here.
    pub(crate) fn load_to_inspect(&self) -> Result<Resolved> {
        Ok(recipe::load(&self.path, &self.set.sets, &WithoutFiles(self.plugin.registry()?))?)
    }

    /// The recipes of a sweep.
    pub(crate) fn load_sweep(&self) -> Result<Plan> {
        Ok(recipe::load_sweep(&self.path, &self.set.sets, &self.plugin.registry()?)?)
    }

    /// The recipes of a sweep that is only inspected: its data need not be on this machine.
    pub(crate) fn load_sweep_to_inspect(&self) -> Result<Plan> {
        Ok(recipe::load_sweep(&self.path, &self.set.sets, &WithoutFiles(self.plugin.registry()?))?)
    }
}

/// Device and threads.
#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Device to compute on: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, default_value_t, value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Number of CPU threads. Default: one per core.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}
