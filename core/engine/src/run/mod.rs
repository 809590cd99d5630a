//! Run folders, checkpoints and the run loop.

mod announce;
pub mod checkpoint;
mod checkpoint_writer;
mod embed;
mod evaluation;
mod finished_run;
mod observe;
mod plugins;
mod prepare;
pub mod projector;
mod run_loop;
mod samples;
mod saved;
mod start_files;

pub use embed::{EmbedSource, Embedded, embed};
pub use finished_run::FinishedRun;
pub use run_loop::{CHECKPOINT_SECONDS, RunOptions, RunOutcome, execute};
pub use saved::{ModelSettings, SavedModel};
