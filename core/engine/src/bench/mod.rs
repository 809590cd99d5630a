//! Many runs from one recipe: planning, launching (locally or with Slurm) and their states.
//! `curricle-report` compares them.

mod launch;
mod pool;
mod progress;
mod slurm;
mod state;
mod tuning;

pub use launch::Launch;
pub use pool::{BenchOutcome, Event, PoolOptions, run_all};
pub use progress::BenchProgress;
pub use slurm::{Submission, submission};
pub use state::{RunStatus, folder_of, state_of};
pub use tuning::{SearchRecord, TrialRecord, TrialRun, TuneRecord, settle};
