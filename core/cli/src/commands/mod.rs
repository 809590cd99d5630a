//! The commands, one file each.

pub(crate) mod audit;
mod audit_output;
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
use crate::error::{Error, Result};
use clap_complete::ArgValueCompleter;
use curricle_engine::Experiment;
use curricle_engine::Registry;
use curricle_engine::device::DeviceChoice;
use curricle_engine::plugin::{Interpreter, set_interpreter};
use curricle_engine::preflight::WithoutFiles;
use curricle_recipe::{self as recipe, Plan, Resolved};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Parses the path of an input, which must exist, so that a mistyped path is a usage error.
fn existing(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.exists() { Ok(path) } else { Err("no such file or folder".into()) }
}

/// Creates a folder for output, and checks that files can be written there, before work that takes long.
fn writable_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    tempfile::Builder::new()
        .prefix(".curricle-")
        .tempfile_in(folder)
        .map_err(|error| Error::file("write to", folder)(error.kind().into()))?;
    Ok(())
}

/// Checks that a file can be written, before work that takes long.
fn writable_file(file: &Path) -> Result<()> {
    if file.is_dir() {
        return Err(Error::usage(format!("`{}` is a folder\nhelp: name a file in it", file.display())));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Its own errors name the temporary file too.
    let trial = tempfile::Builder::new().prefix(".curricle-").tempfile_in(folder);
    trial.map_err(|error| Error::file("write", file)(error.kind().into()))?;
    Ok(())
}

/// Parses a count of at least 1.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number and at least 1".to_string())
}

/// Parses a count or a seed.
fn whole_number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("must be a whole number from 0 to {}", u64::MAX))
}

/// Parses a number with or without decimals.
fn finite(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| "must be a number, e.g. 0.5".to_string())
}

/// Plugins given on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct PluginArgs {
    /// Load components from a plugin library or a Python file, like `plugins.paths` in a recipe; may be repeated.
    #[arg(long = "plugin", value_name = "PATH")]
    plugins: Vec<PathBuf>,
    #[command(flatten)]
    pub python: PythonArgs,
}

impl PluginArgs {
    /// The built-in components and those of the plugins.
    pub(crate) fn registry(&self) -> Result<Registry> {
        self.python.apply();
        Ok(Registry::with_plugins(&self.plugins)?)
    }
}

/// How losses in Python files are run.
#[derive(Debug, clap::Args)]
pub(crate) struct PythonArgs {
    /// Python interpreter for plugins that are Python files; it must have torch. Default: `python3` in `PATH`, so
    /// that of an activated environment.
    #[arg(long, value_name = "INTERPRETER", env = "CURRICLE_PYTHON", hide_env_values = true)]
    python: Option<PathBuf>,
    /// Seconds after which a call of a loss in Python counts as hanging. Default: 120, which is also the least for
    /// loading its file.
    #[arg(long, value_name = "SECONDS", env = "CURRICLE_PYTHON_TIMEOUT", hide_env_values = true)]
    #[arg(value_parser = at_least_one)]
    python_timeout: Option<usize>,
}

impl PythonArgs {
    /// Sets the interpreter of the whole program.
    pub(crate) fn apply(&self) {
        let default = Interpreter::default();
        set_interpreter(Interpreter {
            program: self.python.clone().map_or(default.program, Into::into),
            time_limit: self.python_timeout.map_or(default.time_limit, |seconds| Duration::from_secs(seconds as u64)),
        });
    }

    /// The same options for another process, which may run in another folder.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if let Some(python) = &self.python {
            // A name without a folder is looked up in `PATH`.
            let is_name = python.components().count() == 1;
            let python = if is_name { python.clone() } else { std::path::absolute(python).unwrap_or(python.clone()) };
            arguments.extend(["--python".to_string(), python.display().to_string()]);
        }
        if let Some(seconds) = self.python_timeout {
            arguments.extend(["--python-timeout".to_string(), seconds.to_string()]);
        }
        arguments
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
    /// The options for losses in Python, for other processes.
    pub(crate) fn python_arguments(&self) -> Vec<String> {
        self.plugin.python.to_arguments()
    }

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
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_negative_numbers = true)]
    pub threads: Option<usize>,
}
