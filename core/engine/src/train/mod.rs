//! The training loop: trainer, optimisers, schedules, loss scaling and sample weights.

mod checks;
pub mod components;
pub(crate) mod declared;
mod ema;
pub(crate) mod groups;
pub mod loss_scale;
pub mod meter;
mod micro_batch;
pub mod noise_report;
pub mod optimizer;
mod restore;
mod sample_columns;
pub mod schedule;
mod snapshot;
mod step;
mod trainer;
pub mod weighting;

pub(crate) use checks::{check_batch_weights, check_batches, check_connected, check_log, check_loss};
pub use declared::Declared;
pub use ema::Ema;
pub(crate) use sample_columns::{LOSS_COLUMNS, SampleColumns};
pub(crate) use step::graph_error;
pub use trainer::{EpochEnd, StepReport, Trainer, TrainerPosition, TrainingSet};
pub(crate) use weighting::check as check_weights;
