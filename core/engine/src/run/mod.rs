//! Run folders, checkpoints and the life of a run.

pub mod checkpoint;
mod finished;
mod folder;
mod life;
mod manifest;
mod observe;
mod plugins;
mod prepare;
mod samples;

pub use finished::Finished;
pub use folder::RunFolder;
pub use life::{Outcome, RunOptions, execute};
pub use manifest::{Conditions, FORMAT, Manifest, RunResult};
