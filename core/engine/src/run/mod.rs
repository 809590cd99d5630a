//! Run folders, checkpoints and the life of a run.

pub mod checkpoint;
pub mod files;
mod folder;

pub use folder::RunFolder;
