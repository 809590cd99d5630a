//! Samplers: which samples form the batches of an epoch.

use crate::{Advice, DataFacts, Result};

/// What a sampler knows about an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Epoch<'a> {
    /// The (possibly noisy) label of every training sample, from 0 to C-1.
    pub labels: &'a [i64],
    /// The run's seed.
    pub seed: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
}

/// Forms the batches of an epoch.
pub trait Sampler: Send + Sync {
    /// The batches of one epoch as indices into the training set.
    ///
    /// Must depend only on the settings and `epoch`: a resumed run calls it again and needs the same batches.
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>>;

    /// Samples in a full batch.
    fn batch_size(&self) -> usize;

    /// Rejects settings that cannot work together. Called once, before anything else.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Warnings about settings that are valid but degenerate on this data.
    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        Vec::new()
    }
}
