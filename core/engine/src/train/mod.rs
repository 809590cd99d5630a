//! The training loop: trainer, optimisers, schedules, loss scaling and sample weights.

mod checks;
pub mod components;
pub(crate) mod declared;
pub(crate) mod groups;
pub mod loss_scale;
pub mod meter;
pub mod noise_report;
pub mod optimizer;
pub mod schedule;
mod snapshot;
mod trainer;
pub mod weighting;

pub(crate) use checks::{check_batches, check_loss};
pub use declared::Declared;
pub use trainer::{EpochEnd, StepReport, Trainer, TrainerPosition, TrainingSet};
pub(crate) use weighting::check as check_weights;
