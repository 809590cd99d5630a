//! Run folders, checkpoints and the life of a run.

pub mod checkpoint;
mod folder;
mod life;
mod manifest;
mod observe;
mod plugins;
mod prepare;
mod samples;

pub use folder::RunFolder;
pub use life::{FAILURE, Outcome, RunOptions, execute};
pub use manifest::{Conditions, FORMAT, Manifest, RunResult};
