//! The exponential moving average of the network.

use crate::backbone::Model;
use curricle_sdk::Result;
use tch::{Kind, Tensor};

/// Tensors of two networks in the same order.
type Pairs = (Vec<Tensor>, Vec<Tensor>);

/// A network whose parameters and running statistics follow those of the trained one:
/// `ema ← d · ema + (1 - d) · network` after every step.
///
/// The decay is `d = min(decay, (1 + t) / (10 + t))` in step `t`, so that the average forgets the initial network
/// in short runs too.
#[derive(Debug)]
pub struct Ema {
    /// The averaged network.
    pub model: Model,
    /// Its floating-point tensors, and those of the network.
    averaged: Pairs,
    /// Counters, e.g. of batches, which have no average.
    copied: Pairs,
    decay: f64,
}

impl Ema {
    /// An average of `network` that starts at the values of `model`.
    pub fn new(model: Model, network: &Model, decay: f64) -> Self {
        let pairs = model.tensors().into_iter().zip(network.tensors());
        let pairs = pairs.map(|(own, other)| (own.tensor.set_requires_grad(false), other.tensor));
        let (averaged, copied): (Vec<_>, Vec<_>) = pairs.partition(|(own, _)| own.kind() == Kind::Float);
        Self { model, averaged: averaged.into_iter().unzip(), copied: copied.into_iter().unzip(), decay }
    }

    /// Takes the network after step `step`, counted from 1, into the average.
    pub(super) fn update(&self, step: u64) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let warm_up = (1.0 + step as f64) / (10.0 + step as f64);
        let share = 1.0 - self.decay.min(warm_up);
        let (own, others) = &self.averaged;
        curricle_torch::lerp(&own.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>(), share)?;
        for (own, other) in self.copied.0.iter().zip(&self.copied.1) {
            own.shallow_clone().f_copy_(other)?;
        }
        Ok(())
    }

    /// Embeddings of a training batch by the averaged network, in evaluation mode.
    pub(super) fn embed(&self, inputs: &Tensor) -> Tensor {
        tch::no_grad(|| self.model.forward(inputs, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Layout;
    use curricle_recipe::{BackboneRecipe, EmbeddingRecipe};
    use tch::Device;

    #[test]
    fn the_average_follows_the_formula_and_has_no_gradients() {
        let model = |seed| {
            let layout = Layout::Features { size: 3 };
            let embedding = EmbeddingRecipe { size: 2 };
            Model::build(&BackboneRecipe::Linear, &embedding, layout, seed, Device::Cpu).unwrap()
        };
        let (network, start) = (model(1), model(2));
        let before: Vec<_> = start.tensors().iter().map(|named| named.tensor.copy()).collect();
        let ema = Ema::new(start, &network, 0.9);
        // The decay of the first step is limited by the warm-up, that of the hundredth is not.
        for (step, decay) in [(1, 2.0 / 11.0), (100, 0.9)] {
            let before: Vec<_> = ema.model.tensors().iter().map(|named| named.tensor.copy()).collect();
            ema.update(step).unwrap();
            for ((own, before), other) in ema.model.tensors().iter().zip(before).zip(network.tensors()) {
                let expected = before * decay + other.tensor.detach() * (1.0 - decay);
                assert!((&own.tensor - expected).abs().max().double_value(&[]) < 1e-6, "{}", own.name);
                assert!(!own.tensor.requires_grad());
            }
        }
        assert!(before.iter().zip(ema.model.tensors()).any(|(before, own)| *before != own.tensor));
    }
}
