//! The weights of the training samples.

use super::checks::check_name;
use super::components::{Components, named};
use super::declared::check_declared;
use super::noise_report::NoiseReport;
use super::sample_columns::{LOSS_COLUMNS, SampleColumns, check_column_name};
use super::step::seed_generators;
use crate::Result;
use crate::call::call;
use crate::last_words::running;
use curricle_recipe::Recipe;
use curricle_sdk::{ComponentKind, LossInfo, Round, WeightUpdate, rng};
use tch::{Device, Kind, Tensor};

/// The weight of every training sample, on the host for the scheme and on the device for losses.
#[derive(Debug)]
pub struct SampleWeights {
    values: Vec<f64>,
    on_device: Tensor,
    uniform: bool,
    /// The lowest and the highest weight that was set on the device and that the host does not have; `None` if there
    /// is none.
    set_in_steps: Option<[Tensor; 2]>,
}

impl SampleWeights {
    /// All weights 1. With `uniform` they stay 1 and losses are not weighted at all.
    pub fn ones(samples: usize, uniform: bool, device: Device) -> Self {
        Self::new(vec![1.0; samples], uniform, device)
    }

    fn new(values: Vec<f64>, uniform: bool, device: Device) -> Self {
        let single: Vec<f32> = values.iter().map(|&w| w as f32).collect();
        Self { values, on_device: Tensor::from_slice(&single).to_device(device), uniform, set_in_steps: None }
    }

    /// The weights on the host.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The weights of a batch, or `None` if weights are uniform.
    pub fn batch(&self, ids: &Tensor) -> Option<Tensor> {
        (!self.uniform).then(|| self.on_device.index_select(0, ids))
    }

    /// Sets the weights of a batch, without waiting for the device.
    pub(super) fn set_batch(&mut self, ids: &Tensor, weights: &Tensor) -> curricle_sdk::Result<()> {
        let _no_grad = tch::no_grad_guard();
        let weights = weights.to_kind(Kind::Float);
        let (low, high) = (weights.f_min()?, weights.f_max()?);
        let _ = self.on_device.f_index_copy_(0, ids, &weights)?;
        self.set_in_steps = Some(match &self.set_in_steps {
            Some([lowest, highest]) => [lowest.f_minimum(&low)?, highest.f_maximum(&high)?],
            None => [low, high],
        });
        Ok(())
    }

    /// Reads the weights that were set batch by batch and returns the highest, if there are any; the error says which
    /// one is not a weight.
    pub(super) fn read(&mut self) -> Result<Option<f64>, String> {
        let Some([_, highest]) = self.set_in_steps.take() else { return Ok(None) };
        let values = self.on_device.to_device(Device::Cpu).to_kind(Kind::Double);
        self.values = Vec::try_from(values).unwrap_or_default();
        check_values(&self.values)?;
        Ok(Some(highest.double_value(&[])))
    }

    /// The lowest and the highest weight that was set batch by batch since the last `read`, on the device.
    pub(super) fn range_in_steps(&self) -> Option<[Tensor; 2]> {
        self.set_in_steps.as_ref().map(|range| range.each_ref().map(Tensor::shallow_clone))
    }

    /// Replaces the weights.
    pub fn set(&mut self, values: Vec<f64>) {
        *self = Self::new(values, self.uniform, self.on_device.device());
    }
}

/// What the scheme may know of the training samples besides their labels.
#[derive(Debug, Default)]
pub struct Known<'a> {
    /// Embeddings of the network, if the scheme needs them.
    pub embeddings: Option<&'a Tensor>,
    /// Embeddings of its moving average, if the scheme needs them.
    pub ema_embeddings: Option<&'a Tensor>,
    /// Which labels the recipe's noise changed, if it has any.
    pub flipped: Option<&'a [bool]>,
}

/// Asks the scheme for the weights of the next round and checks them.
pub(crate) fn update(
    recipe: &Recipe,
    components: &Components,
    known: &Known,
    labels: &[i64],
    weights: &SampleWeights,
    logged: &SampleColumns,
    round: u64,
) -> Result<WeightUpdate> {
    let Known { embeddings, ema_embeddings, flipped } = *known;
    let loss = LossInfo { name: &recipe.loss.name, settings: &recipe.loss.settings };
    let round = Round {
        round,
        rounds: recipe.train.epochs,
        seed: recipe.seed,
        embeddings,
        ema_embeddings,
        flipped,
        ..Round::new(labels, weights.values(), &components.weights_tensors.tensors, loss)
    };
    // For schemes that draw from libtorch's generator.
    seed_generators(rng::seed_for(recipe.seed, "weights", round.round, 0))?;
    let mut lent: Vec<(&str, &Tensor)> = embeddings.map(|x| ("embeddings", x)).into_iter().collect();
    lent.extend(ema_embeddings.map(|x| ("ema_embeddings", x)));
    let name = &recipe.weights.name;
    let update = call(running(ComponentKind::Weights, name), &lent, || components.weights.update(&round));
    let update = update.and_then(|update| {
        check_declared(&components.weights_tensors)?;
        check(&update, labels.len()).map_err(curricle_sdk::Error::other)?;
        let twice = update.columns.iter().find(|(column, _)| logged.has(column));
        match twice {
            Some((column, _)) => Err(curricle_sdk::Error::other(format!(
                "returned a column `{column}` for `samples.csv`, which it also logged batch by batch"
            ))),
            None => Ok(update),
        }
    });
    update.map_err(named(ComponentKind::Weights, name))
}

/// Checks a scheme's update; the error is a message.
pub(crate) fn check(update: &WeightUpdate, samples: usize) -> Result<(), String> {
    let wrong_length = |what: &str, length| format!("returned {what} of length {length} for {samples} samples");
    if update.weights.len() != samples {
        return Err(wrong_length("weights", update.weights.len()));
    }
    check_values(&update.weights)?;
    for (index, (name, _)) in update.scalars.iter().enumerate() {
        check_name(name).map_err(|error| error.to_string())?;
        if NoiseReport::NAMES.contains(&name.as_str()) || update.scalars[..index].iter().any(|(other, _)| other == name)
        {
            return Err(format!("returned a scalar `{name}`, a name that is taken; choose another one"));
        }
    }
    for (index, (name, column)) in update.columns.iter().enumerate() {
        if column.len() != samples {
            return Err(wrong_length(&format!("column `{name}`"), column.len()));
        }
        check_column_name(name).map_err(|error| error.to_string())?;
        if name.starts_with(LOSS_COLUMNS) || update.columns[..index].iter().any(|(other, _)| other == name) {
            return Err(format!(
                "named a column of `samples.csv` `{name}`, which is not available; choose another name"
            ));
        }
    }
    Ok(())
}

fn check_values(weights: &[f64]) -> Result<(), String> {
    if let Some(sample) = weights.iter().position(|w| !(0.0..=1.0).contains(w)) {
        let weight = weights[sample];
        return Err(format!("returned a weight of {weight} for sample {sample}, which is not between 0 and 1"));
    }
    if weights.iter().all(|&weight| weight == 0.0) {
        return Err("gave all samples the weight 0, so there is nothing to learn from".into());
    }
    Ok(())
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
    fn the_highest_weight_of_the_batches_is_read_once() {
        let mut weights = SampleWeights::ones(3, false, Device::Cpu);
        assert_eq!(weights.read(), Ok(None));
        let zeros = Tensor::zeros([2], (Kind::Float, Device::Cpu));
        weights.set_batch(&Tensor::from_slice(&[0i64, 2]), &zeros).unwrap();
        assert_eq!(weights.read(), Ok(Some(0.0)));
        assert_eq!(weights.values(), [0.0, 1.0, 0.0]);
        assert_eq!(weights.read(), Ok(None));
    }

    #[test]
    fn uniform_weights_are_not_passed_to_losses() {
        let ids = Tensor::from_slice(&[0i64]);
        assert!(SampleWeights::ones(3, true, Device::Cpu).batch(&ids).is_none());
        assert!(SampleWeights::ones(3, false, Device::Cpu).batch(&ids).is_some());
    }
}
