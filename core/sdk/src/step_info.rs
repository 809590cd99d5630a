//! Where in training a batch is.

/// The position of a batch in training, and the size of the training set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInfo {
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Epochs in the whole run.
    pub epochs: u64,
    /// The step within the epoch, counted from 0.
    pub step: u64,
    /// Steps in this epoch.
    pub steps: u64,
    /// Steps taken since the start of training; 0 in the first one.
    pub global_step: u64,
    /// Number of training classes; labels run from 0 to `classes - 1`.
    pub classes: i64,
    /// Number of training samples; ids run from 0 to `samples - 1`.
    pub samples: i64,
}

impl Default for StepInfo {
    /// The only step of the only epoch.
    fn default() -> Self {
        Self { epoch: 0, epochs: 1, step: 0, steps: 1, global_step: 0, classes: 0, samples: 0 }
    }
}
