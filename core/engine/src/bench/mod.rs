//! Many runs from one recipe: which, how they stand, who carries them out, and what they came to
//! together.

mod launch;
mod pool;
mod progress;
mod slurm;
mod state;
mod summary;
mod tuning;

pub use launch::Launch;
pub use pool::{Event, Finished, PoolOptions, run_all};
pub use progress::BenchProgress;
pub use slurm::{Submission, submission};
pub use state::{STATES, Standing, State, folder_of};
pub use summary::{Row, Spread, summarise};
pub use tuning::{SearchRecord, TrialRecord, TrialRun, TuneRecord, settle};
