//! The training loop and its parts.

pub mod components;
pub mod meter;
pub mod noise_report;
pub mod optimizer;
pub mod schedule;
mod snapshot;
pub mod stop;
mod trainer;
pub mod weighting;

pub use components::Declared;
pub(crate) use snapshot::restore_model;
pub use trainer::{EpochEnd, StepReport, StepTimes, Trainer, TrainingSet};
pub(crate) use trainer::{check_batches, check_loss};
pub(crate) use weighting::check as check_weights;
