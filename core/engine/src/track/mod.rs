//! What a run writes for people: `metrics.jsonl`, TensorBoard files, progress and log lines.
//!
//! `metrics.jsonl` is the record and must be written; TensorBoard is the view and may fail.
//!
//! Tags have the form `group/name`. The groups `train/` (losses, learning rates), `eval/`
//! (`eval/recall@1`, `eval/nmi`, …), `weights/` and `noise/` are the same in every run of a
//! recipe; whatever depends on the clock is under [`curricle_record::metrics_file::TIME`] so that comparisons can leave
//! it out.

mod font;
mod histogram;
mod summary;

pub mod counter;
pub mod events;
pub mod grid;
pub mod hparams;
pub mod logging;
pub mod picture;
pub mod profile;
pub mod tracker;

pub use counter::Counter;
pub use hparams::HParams;
pub use picture::Picture;
pub use profile::{Part, Profile, ProfileSummary};
pub use tracker::{Status, Tracker};
