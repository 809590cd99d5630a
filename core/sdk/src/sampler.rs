//! Samplers: which samples form the batches of an epoch.

use crate::{Advice, DataFacts, Result};

/// What a sampler gets to know of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Epoch<'a> {
    /// The (possibly noisy) label of every training sample, from 0 to C-1.
    pub labels: &'a [i64],
    /// The run's seed.
    pub seed: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
}

/// Decides which samples form the batches of an epoch.
pub trait Sampler: Send + Sync {
    /// The batches of one epoch as indices into the training set.
    ///
    /// Must depend on nothing but its settings and `epoch`: a resumed run asks again and relies
    /// on the same answer.
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>>;

    /// Samples in a full batch.
    fn batch_size(&self) -> usize;

    /// Refuses settings that cannot be used together. Called once, before anything else.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Settings that are legal but will disappoint on this data.
    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        Vec::new()
    }
}
