//! The weights of the training samples.

use super::components::{Components, named};
use crate::{Error, Result};
use curricle_recipe::Recipe;
use curricle_sdk::{ComponentKind, LossInfo, Round, WeightUpdate, guard};
use tch::{Device, Tensor};

/// The weight of every training sample, on the host for the scheme and on the device for losses.
#[derive(Debug)]
pub struct SampleWeights {
    values: Vec<f64>,
    on_device: Tensor,
    uniform: bool,
}

impl SampleWeights {
    /// All weights 1. With `uniform` they stay 1 and losses are not weighted at all.
    pub fn ones(samples: usize, uniform: bool, device: Device) -> Self {
        Self::new(vec![1.0; samples], uniform, device)
    }

    fn new(values: Vec<f64>, uniform: bool, device: Device) -> Self {
        let single: Vec<f32> = values.iter().map(|&w| w as f32).collect();
        Self { values, on_device: Tensor::from_slice(&single).to_device(device), uniform }
    }

    /// The weights on the host.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The weights of a batch, or `None` if weights are uniform.
    pub fn batch(&self, ids: &Tensor) -> Option<Tensor> {
        (!self.uniform).then(|| self.on_device.index_select(0, ids))
    }

    /// Replaces the weights.
    pub fn set(&mut self, values: Vec<f64>) {
        *self = Self::new(values, self.uniform, self.on_device.device());
    }
}

/// Asks the scheme for the weights of the next round and checks them.
pub fn update(
    recipe: &Recipe,
    components: &Components,
    embeddings: Option<&Tensor>,
    labels: &[i64],
    weights: &SampleWeights,
    round: u64,
) -> Result<WeightUpdate> {
    let loss = LossInfo { name: &recipe.loss.name, settings: &recipe.loss.settings };
    let round = Round {
        round,
        rounds: recipe.train.epochs,
        seed: recipe.seed,
        embeddings,
        ..Round::new(labels, weights.values(), &components.weights_tensors.tensors, loss)
    };
    let update =
        guard(|| components.weights.update(&round)).map_err(named(ComponentKind::Weights, &recipe.weights.name))?;
    check(&update, labels.len()).map_err(|message| Error::Component {
        kind: ComponentKind::Weights,
        name: recipe.weights.name.clone(),
        source: curricle_sdk::Error::other(message),
    })?;
    Ok(update)
}

/// Checks a scheme's update; the error is a message.
pub(crate) fn check(update: &WeightUpdate, samples: usize) -> Result<(), String> {
    let wrong_length = |what: &str, length| format!("returned {what} of length {length} for {samples} samples");
    if update.weights.len() != samples {
        return Err(wrong_length("weights", update.weights.len()));
    }
    if let Some(sample) = update.weights.iter().position(|w| !(0.0..=1.0).contains(w)) {
        let weight = update.weights[sample];
        return Err(format!("returned a weight of {weight} for sample {sample}, which is not between 0 and 1"));
    }
    match update.columns.iter().find(|(_, column)| column.len() != samples) {
        Some((name, column)) => Err(wrong_length(&format!("column `{name}`"), column.len())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update_with(weights: Vec<f64>) -> WeightUpdate {
        WeightUpdate { weights, ..Default::default() }
    }

    #[test]
    fn invalid_weights_are_refused_with_the_sample() {
        assert!(check(&update_with(vec![0.0, 1.0]), 2).is_ok());
        assert_eq!(check(&update_with(vec![1.0]), 2).unwrap_err(), "returned weights of length 1 for 2 samples");
        for bad in [1.5, -0.1, f64::NAN] {
            let message = check(&update_with(vec![1.0, bad]), 2).unwrap_err();
            assert!(message.starts_with("returned a weight of") && message.contains("for sample 1"), "{message}");
        }
    }

    #[test]
    fn uniform_weights_are_not_passed_to_losses() {
        let ids = Tensor::from_slice(&[0i64]);
        assert!(SampleWeights::ones(3, true, Device::Cpu).batch(&ids).is_none());
        assert!(SampleWeights::ones(3, false, Device::Cpu).batch(&ids).is_some());
    }
}
