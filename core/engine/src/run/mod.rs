//! Run folders, checkpoints and the run loop.

pub mod checkpoint;
mod embed;
mod evaluation;
mod finished;
mod folder;
mod front_matter;
mod life;
mod manifest;
mod observe;
mod plugins;
mod prepare;
mod samples;
mod saved;

pub use embed::{EmbedSource, Embedded, embed};
pub use finished::Finished;
pub use folder::RunFolder;
pub use life::{FAILURE, Outcome, RunOptions, execute};
pub use manifest::{Conditions, FORMAT, Manifest, RunResult};
pub use saved::{ModelSettings, SavedModel};
