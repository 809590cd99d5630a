//! Warnings about settings.

use super::library::sink;
use super::{Record, Str};

/// What is known about the training data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataFacts {
    /// Size of this struct in the host's version.
    pub size: usize,
    /// Samples in each class.
    pub class_sizes: *const usize,
    /// Number of classes.
    pub classes: usize,
    /// Size of the embedding.
    pub embedding_size: usize,
    /// Samples in one batch, 0 if not known yet.
    pub batch_size: usize,
}

// SAFETY: `repr(C)`, starts with its size, and has no functions.
unsafe impl Record for DataFacts {
    const NAME: &'static str = "curricle_data_facts";
    const MINIMUM: usize = 40;
}

sink! {
    /// Receives advice.
    AdviceSink, "curricle_advice_sink",
    /// Copies one warning.
    advise(path: Str, message: Str)
}
