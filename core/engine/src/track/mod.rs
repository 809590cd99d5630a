//! Output of a run: `metrics.jsonl`, TensorBoard files, progress and log lines.
//!
//! A failure to write `metrics.jsonl` is an error; a failure to write TensorBoard files is a warning.
//!
//! Tags have the form `group/name`. The groups `train/` (losses, learning rates), `eval/`
//! (`eval/recall@1`, `eval/nmi`, …), `weights/` and `noise/` are the same in every run of a
//! recipe; values that depend on the clock are under `time/`, so that comparisons can exclude
//! them.

mod font;
mod histogram;
mod summary;
mod weight_chart;

pub mod counter;
pub mod events;
pub mod grid;
pub mod hparams;
pub mod logging;
pub mod profile;
pub mod rgb_image;
pub mod tracker;

pub use counter::Counter;
pub use hparams::HParams;
pub use profile::{Phase, Profile, ProfileSummary};
pub use rgb_image::RgbImage;
pub use tracker::Tracker;
pub(crate) use weight_chart::weight_chart;
