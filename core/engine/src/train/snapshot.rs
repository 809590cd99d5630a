//! Saving a trainer's tensors for a checkpoint and restoring them.

use super::Trainer;
use super::declared::Declared;
use super::ema::Ema;
use super::loss_scale::LossScale;
use super::restore::copy;
use crate::{Error, Result};
use std::collections::HashMap;
use tch::Tensor;

const SAMPLE_WEIGHTS: &str = "sample_weights";

impl Trainer<'_> {
    /// Every tensor that training changes, by name.
    pub(crate) fn snapshot(&self) -> Vec<(String, Tensor)> {
        let mut tensors: Vec<_> =
            self.model.tensors().into_iter().map(|named| (format!("model.{}", named.name), named.tensor)).collect();
        tensors.extend(declared_tensors("loss", &self.components.loss_tensors));
        tensors.extend(declared_tensors("weights", &self.components.weights_tensors));
        tensors.extend(self.optimizer.state());
        tensors.extend(self.loss_scale.iter().flat_map(LossScale::state));
        tensors.extend(self.ema.iter().flat_map(ema_tensors));
        tensors.extend(self.columns.state());
        tensors.push((SAMPLE_WEIGHTS.into(), Tensor::from_slice(self.weights.values())));
        tensors
    }

    /// Restores the tensors of a snapshot.
    pub(super) fn restore(&mut self, tensors: &HashMap<String, Tensor>, steps: u64) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        let saved = |name: &str| tensors.get(name).ok_or_else(|| Error::MissingTensor(name.to_string()));
        for named in self.model.tensors() {
            copy(&named.tensor, saved(&format!("model.{}", named.name))?, &named.name)?;
        }
        for (name, tensor) in declared_tensors("loss", &self.components.loss_tensors)
            .chain(declared_tensors("weights", &self.components.weights_tensors))
        {
            copy(&tensor, saved(&name)?, &name)?;
        }
        for (name, tensor) in self.ema.iter().flat_map(ema_tensors) {
            copy(&tensor, saved(&name)?, &name)?;
        }
        self.columns.restore(tensors);
        self.optimizer.restore(tensors, steps)?;
        if let Some(scale) = &mut self.loss_scale {
            scale.restore(tensors)?;
        }
        let weights = Vec::<f64>::try_from(saved(SAMPLE_WEIGHTS)?).map_err(|_| Error::CheckpointMismatch)?;
        if weights.len() != self.weights.values().len() {
            return Err(Error::CheckpointMismatch);
        }
        self.weights.set(weights);
        Ok(())
    }
}

fn declared_tensors<'a>(kind: &'a str, declared: &'a Declared) -> impl Iterator<Item = (String, Tensor)> + 'a {
    declared.tensors.iter().map(move |(name, tensor)| (format!("{kind}.{name}"), tensor.shallow_clone()))
}

fn ema_tensors(ema: &Ema) -> impl Iterator<Item = (String, Tensor)> {
    ema.model.tensors().into_iter().map(|named| (format!("ema.{}", named.name), named.tensor))
}
