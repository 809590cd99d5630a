//! The files of a run: where they are, what is in them, which version they have.
//!
//! Each format has one owner here: [`RunFolder`] knows every path of a run folder, [`Manifest`],
//! [`RunResult`] and [`metrics_file`] read and write their files and check versions. Nothing here
//! needs libtorch, so reports and other tools can use it alone.

pub mod any_float;
mod error;
mod exit;
pub mod files;
mod folder;
mod folder_name;
mod manifest;
mod metric;
pub mod metrics_file;
mod result;
pub mod samples;
mod settings;
mod state;

pub use error::{Error, Result};
pub use exit::Exit;
pub use folder::{LockedRun, RunFolder, RunLabels};
pub use folder_name::folder_name;
pub use manifest::{Conditions, FORMAT, Manifest, PluginHash, SkippedFile, WeightsReport};
pub use metric::{Metric, Metrics};
pub use result::{RunResult, default_method};
pub use settings::{leaves, setting};
pub use state::{RunState, StateName};
