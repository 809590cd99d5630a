//! The exponential moving average of the network.

use crate::backbone::Model;
use curricle_sdk::Result;
use tch::{Kind, Tensor};

/// A network whose parameters and running statistics follow those of the trained one:
/// `ema ← d · ema + (1 - d) · network` after every step.
///
/// The decay is `d = min(decay, (1 + t) / (10 + t))` in step `t`, so that the average forgets the initial network
/// in short runs too.
#[derive(Debug)]
pub struct Ema {
    /// The averaged network.
    pub model: Model,
    decay: f64,
}

impl Ema {
    /// An average that starts at the values of `model`, which must be those of the network.
    pub fn new(model: Model, decay: f64) -> Self {
        for named in model.tensors() {
            let _ = named.tensor.set_requires_grad(false);
        }
        Self { model, decay }
    }

    /// Takes the network after step `step`, counted from 1, into the average.
    pub(super) fn update(&self, network: &Model, step: u64) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let warm_up = (1.0 + step as f64) / (10.0 + step as f64);
        let share = 1.0 - self.decay.min(warm_up);
        let (averages, values) = (self.model.tensors(), network.tensors());
        let pairs = || averages.iter().zip(&values).map(|(average, value)| (&average.tensor, &value.tensor));
        let (mine, theirs): (Vec<&Tensor>, Vec<&Tensor>) =
            pairs().filter(|(average, _)| average.kind() == Kind::Float).unzip();
        curricle_torch::lerp(&mine, &theirs, share)?;
        // Counters, e.g. of batches, have no average.
        for (average, value) in pairs().filter(|(average, _)| average.kind() != Kind::Float) {
            average.shallow_clone().f_copy_(value)?;
        }
        Ok(())
    }

    /// Embeddings of a training batch by the averaged network, in evaluation mode.
    pub(super) fn embed(&self, inputs: &Tensor) -> Tensor {
        tch::no_grad(|| self.model.forward(inputs, false))
    }
}
