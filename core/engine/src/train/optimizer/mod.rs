//! Optimisers whose state can be saved.
//!
//! tch hides the moments of libtorch's optimisers, so a resumed run would start with empty ones. These
//! follow PyTorch's formulas, keep everything on the device, and update all parameters that share a
//! learning rate and weight decay in one call.

mod adam;
mod rmsprop;
mod sgd;

use super::loss_scale::LossScale;
use super::restore::copy;
use crate::{Error, Result};
use curricle_recipe::OptimizerRecipe;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tch::{Device, Kind, TchError, Tensor};

/// Name of the tensor in a checkpoint that holds each parameter's update count.
const UPDATES: &str = "optimizer.updates";

/// An update rule.
trait Rule: Send {
    /// Names of the state tensors kept for each parameter; all start at 0.
    fn moments(&self) -> &'static [&'static str];

    /// Updates all parameters of a batch. May overwrite the gradients.
    fn update(&self, batch: &UpdateBatch, rates: Rates) -> Result<(), TchError>;
}

/// Parameters with the same rates, as lists of equal length.
struct UpdateBatch<'a> {
    parameters: Vec<&'a Tensor>,
    gradients: Vec<&'a Tensor>,
    /// One list per entry of [`Rule::moments`].
    moments: Vec<Vec<&'a Tensor>>,
    /// Number of this update, starting at 1; on the device.
    number: &'a Tensor,
    /// If present and 1, the update is skipped; on the device.
    skip: Option<&'a Tensor>,
}

/// Learning rate and weight decay of a parameter in one step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    lr: f64,
    weight_decay: f64,
}

/// A parameter to optimise.
#[derive(Debug)]
pub struct Parameter {
    /// Its name, unique in the run.
    pub name: String,
    /// The tensor itself; gradients are read from it.
    pub tensor: Tensor,
    /// The parameter group it belongs to.
    pub group: String,
    /// Factor on the learning rate of the step.
    pub lr_scale: f64,
    /// Overrides the optimiser's weight decay.
    pub weight_decay: Option<f64>,
}

struct Slot {
    parameter: Parameter,
    moments: Vec<Tensor>,
    /// Index of the counter of its updates.
    counter: usize,
}

/// Updates parameters from their gradients.
pub struct Optimizer {
    rule: Box<dyn Rule>,
    slots: Vec<Slot>,
    base_lr: f64,
    weight_decay: f64,
    steps: u64,
    /// Update counts, one for all parameters that have always been updated together. As in PyTorch, a
    /// step does not count for a parameter without a gradient: the backbone may be frozen while the head
    /// is warmed up. On the device, since only the device knows which steps overflowed.
    counters: Vec<Tensor>,
}

/// Options of one step.
#[derive(Debug, Default)]
pub struct StepOptions<'a> {
    /// Factor on the learning rate.
    pub lr_factor: f64,
    /// Largest total gradient norm; larger gradients are scaled down to it.
    pub clip_norm: Option<f64>,
    /// Whether to return the gradient norm.
    pub want_norm: bool,
    /// The scale that the loss was multiplied by before the backward pass.
    pub scale: Option<&'a mut LossScale>,
}

/// Parameters with their gradients, and the rates and counter they share.
type ParameterBatch<'a> = (Rates, usize, Vec<&'a (&'a Slot, Tensor)>);

impl Optimizer {
    /// An optimiser with empty moments.
    pub fn new(recipe: &OptimizerRecipe, parameters: Vec<Parameter>) -> Self {
        let (rule, base_lr, weight_decay): (Box<dyn Rule>, f64, f64) = match *recipe {
            OptimizerRecipe::Sgd { lr, momentum, nesterov, weight_decay } => {
                (Box::new(sgd::Sgd { momentum, nesterov }), lr, weight_decay)
            }
            OptimizerRecipe::Adam { lr, betas, eps, weight_decay } => {
                (Box::new(adam::Adam { betas, eps, decoupled: false }), lr, weight_decay)
            }
            OptimizerRecipe::Adamw { lr, betas, eps, weight_decay } => {
                (Box::new(adam::Adam { betas, eps, decoupled: true }), lr, weight_decay)
            }
            OptimizerRecipe::Rmsprop { lr, alpha, eps, momentum, weight_decay } => {
                (Box::new(rmsprop::Rmsprop { alpha, eps, momentum }), lr, weight_decay)
            }
        };
        let device = parameters.first().map_or(Device::Cpu, |parameter| parameter.tensor.device());
        let slots = parameters
            .into_iter()
            .map(|parameter| {
                let moments = rule.moments().iter().map(|_| parameter.tensor.detach().zeros_like()).collect();
                Slot { parameter, moments, counter: 0 }
            })
            .collect();
        let counters = vec![Tensor::zeros([], (Kind::Float, device))];
        Self { rule, slots, base_lr, weight_decay, steps: 0, counters }
    }

    /// The learning rate of each parameter group when the schedule gives `lr_factor`.
    pub(crate) fn learning_rates(&self, lr_factor: f64) -> BTreeMap<String, f64> {
        let rate = |p: &Parameter| (p.group.clone(), self.base_lr * lr_factor * p.lr_scale);
        self.slots.iter().map(|slot| rate(&slot.parameter)).collect()
    }

    /// Takes one step and clears the gradients. Nothing in it waits for the device.
    ///
    /// Returns the gradient norm before clipping, still on the device, if it was needed.
    pub fn step(&mut self, options: StepOptions) -> Result<Option<Tensor>, TchError> {
        let _no_grad = tch::no_grad_guard();
        self.steps += 1;
        let mut gradients = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            gradients.push(curricle_torch::take_gradient(&slot.parameter.tensor)?);
        }
        let moved = self.counters_that_move(&gradients);
        let moving: Vec<(&Slot, Tensor)> =
            self.slots.iter().zip(gradients).filter_map(|(slot, gradient)| Some((slot, gradient?))).collect();
        let gradients: Vec<&Tensor> = moving.iter().map(|(_, gradient)| gradient).collect();
        let StepOptions { lr_factor, clip_norm, want_norm, mut scale } = options;
        let skip = scale.as_mut().map(|scale| scale.unscale(&gradients)).transpose()?;
        let norm = if want_norm || clip_norm.is_some() { Some(self.norm(&gradients)?) } else { None };
        if let (Some(limit), Some(norm)) = (clip_norm, &norm) {
            // As in PyTorch: the epsilon avoids 0/0, the clamp leaves short gradients unchanged.
            curricle_torch::scale(&gradients, &(limit / (norm + 1e-6)).clamp_max(1.0))?;
        }
        for &counter in &moved {
            let mut counter = self.counters[counter].shallow_clone();
            match &skip {
                Some(skip) => counter += 1.0 - skip,
                None => counter += 1.0,
            }
        }
        for (rates, counter, members) in self.together(&moving, lr_factor) {
            let batch = UpdateBatch {
                parameters: members.iter().map(|(slot, _)| &slot.parameter.tensor).collect(),
                gradients: members.iter().map(|(_, gradient)| gradient).collect(),
                moments: (0..self.rule.moments().len())
                    .map(|moment| members.iter().map(|(slot, _)| &slot.moments[moment]).collect())
                    .collect(),
                number: &self.counters[counter],
                skip: skip.as_ref(),
            };
            self.rule.update(&batch, rates)?;
        }
        if let Some(scale) = scale {
            scale.adapt()?;
        }
        Ok(norm)
    }

    /// The counters of all parameters with a gradient. Parameters that shared such a counter but have no
    /// gradient move to a separate counter, which is not incremented.
    fn counters_that_move(&mut self, gradients: &[Option<Tensor>]) -> BTreeSet<usize> {
        let has = |wanted: bool| -> BTreeSet<usize> {
            let slots = self.slots.iter().zip(gradients).filter(|(_, gradient)| gradient.is_some() == wanted);
            slots.map(|(slot, _)| slot.counter).collect()
        };
        let (moving, staying) = (has(true), has(false));
        for &shared in moving.intersection(&staying) {
            self.counters.push(self.counters[shared].copy());
            let own = self.counters.len() - 1;
            let left = self.slots.iter_mut().zip(gradients).filter(|(slot, g)| slot.counter == shared && g.is_none());
            left.for_each(|(slot, _)| slot.counter = own);
        }
        moving
    }

    /// Groups parameters by rates and counter, in their original order.
    fn together<'a>(&self, moving: &'a [(&'a Slot, Tensor)], lr_factor: f64) -> Vec<ParameterBatch<'a>> {
        let mut groups: Vec<ParameterBatch<'a>> = Vec::new();
        for member in moving {
            let Slot { parameter, counter, .. } = member.0;
            let rates = Rates {
                lr: self.base_lr * lr_factor * parameter.lr_scale,
                weight_decay: parameter.weight_decay.unwrap_or(self.weight_decay),
            };
            match groups.iter_mut().find(|(known, other, _)| *known == rates && other == counter) {
                Some((.., members)) => members.push(member),
                None => groups.push((rates, *counter, vec![member])),
            }
        }
        groups
    }

    fn norm(&self, gradients: &[&Tensor]) -> Result<Tensor, TchError> {
        if gradients.is_empty() { Ok(self.counters[0].zeros_like()) } else { curricle_torch::norm(gradients) }
    }

    /// Everything it updates.
    pub(super) fn parameters(&self) -> Vec<&Tensor> {
        self.slots.iter().map(|slot| &slot.parameter.tensor).collect()
    }

    /// Whether any parameter has a gradient, i.e. a backward pass since the last step reached it.
    pub(super) fn has_gradients(&self) -> bool {
        self.slots.iter().any(|slot| slot.parameter.tensor.grad().defined())
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// All state tensors, under names such as `optimizer.exp_avg.embedding.weight`.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let names = self.rule.moments();
        let of_slot = |slot: &'_ Slot| -> Vec<_> {
            let moments = names.iter().zip(&slot.moments);
            moments.map(|(name, moment)| (state_name(name, &slot.parameter.name), moment.shallow_clone())).collect()
        };
        let mut state: Vec<_> = self.slots.iter().flat_map(of_slot).collect();
        let updates: Vec<_> = self.slots.iter().map(|slot| &self.counters[slot.counter]).collect();
        if !updates.is_empty() {
            state.push((UPDATES.into(), Tensor::stack(&updates, 0)));
        }
        state
    }

    /// Restores the values of [`Optimizer::state`] and [`Optimizer::steps`].
    pub fn restore(&mut self, state: &HashMap<String, Tensor>, steps: u64) -> Result<()> {
        let names = self.rule.moments();
        let saved = |key: &str| state.get(key).ok_or_else(|| Error::MissingTensor(key.to_string()));
        for slot in &mut self.slots {
            for (name, moment) in names.iter().zip(&mut slot.moments) {
                let name = state_name(name, &slot.parameter.name);
                copy(moment, saved(&name)?, &name)?;
            }
        }
        if !self.slots.is_empty() {
            self.restore_counters(saved(UPDATES)?)?;
        }
        self.steps = steps;
        Ok(())
    }

    /// Parameters with equal update counts share a counter again.
    fn restore_counters(&mut self, updates: &Tensor) -> Result<()> {
        let values = Vec::<f32>::try_from(updates).ok().filter(|values| values.len() == self.slots.len());
        let values = values.ok_or_else(|| Error::CheckpointMismatch)?;
        let device = self.counters[0].device();
        let mut known: Vec<f32> = Vec::new();
        for (slot, value) in self.slots.iter_mut().zip(values) {
            slot.counter = known.iter().position(|other| *other == value).unwrap_or_else(|| {
                known.push(value);
                known.len() - 1
            });
        }
        self.counters = known.into_iter().map(|value| Tensor::from(value).to_device(device)).collect();
        Ok(())
    }
}

fn state_name(moment: &str, parameter: &str) -> String {
    format!("optimizer.{moment}.{parameter}")
}

#[cfg(test)]
mod tests;
