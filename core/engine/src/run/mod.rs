//! Run folders, checkpoints and the run loop.

pub mod checkpoint;
mod embed;
mod evaluation;
mod finished_run;
mod front_matter;
mod observe;
mod plugins;
mod prepare;
pub mod projector;
mod run_loop;
mod samples;
mod saved;

pub use embed::{EmbedSource, Embedded, embed};
pub use finished_run::FinishedRun;
pub use run_loop::{Outcome, RunOptions, execute};
pub use saved::{ModelSettings, SavedModel};
