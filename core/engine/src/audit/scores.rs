//! How well every class suits a sample: what the noise model is fitted to.

use super::discriminant::Discriminant;
use super::nearest::Nearest;
use tch::{Device, Tensor};

/// What scores samples.
pub(super) struct ClassScores<'a> {
    pub discriminant: &'a Discriminant,
    pub nearest: &'a Nearest,
    pub labels: &'a [i64],
    /// Samples per class.
    pub sizes: &'a [usize],
}

/// How the scores are put together. Both are fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScoreSettings {
    /// Shrinkage γ of the discriminant.
    pub shrinkage: f64,
    /// Factor β of the log densities of the nearest samples.
    pub density: f64,
}

impl ClassScores<'_> {
    /// The device of the scores.
    fn device(&self) -> Device {
        self.discriminant.device()
    }

    /// The labels `[B, 1]` of these samples.
    pub(super) fn labels(&self, samples: &[i64]) -> Tensor {
        self.discriminant.labels(&self.index(samples)).unsqueeze(1)
    }

    /// Leave-one-out scores `[B, C]` in f64 of these samples by the discriminant alone.
    pub(super) fn linear(&self, samples: &[i64], shrinkage: f64) -> curricle_sdk::Result<Tensor> {
        self.discriminant.scores(&self.index(samples), shrinkage)
    }

    /// Leave-one-out log densities `[B, C]` in f64 of the classes at these samples.
    pub(super) fn densities(&self, samples: &[i64]) -> curricle_sdk::Result<Tensor> {
        Ok(self.nearest.log_densities(samples, self.labels, self.sizes)?.f_to_device(self.device())?)
    }

    fn index(&self, samples: &[i64]) -> Tensor {
        Tensor::from_slice(samples).to_device(self.device())
    }
}
