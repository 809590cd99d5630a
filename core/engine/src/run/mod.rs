//! Run folders, checkpoints and the life of a run.
