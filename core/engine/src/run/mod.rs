//! Run folders, checkpoints and the run loop.

mod announce;
pub mod checkpoint;
mod checkpoint_writer;
mod embed;
mod evaluation;
mod execute;
mod finished_run;
mod observe;
mod options;
mod plugins;
mod prepare;
pub mod projector;
mod run_loop;
mod samples;
mod saved;
mod start_files;

pub use embed::{EmbedSource, Embedded, embed};
pub use execute::execute;
pub use finished_run::FinishedRun;
pub use options::{CHECKPOINT_SECONDS, RunOptions, RunOutcome};
pub use saved::{ModelSettings, SavedModel};
