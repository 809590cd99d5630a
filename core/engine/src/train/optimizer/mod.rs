//! Optimisers whose state can be saved.
//!
//! tch hides the moments of libtorch's optimisers, so a resumed run would start with empty ones.
//! These follow PyTorch's formulas, keep everything on the device, and move all parameters of the same
//! rates in one call.

mod adam;
mod rmsprop;
mod sgd;

use super::loss_scale::LossScale;
use crate::recipe::OptimizerRecipe;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use tch::{Device, Kind, TchError, Tensor};

/// Name of the number of updates in a checkpoint.
const UPDATES: &str = "optimizer.updates";

/// One update formula.
trait Rule: Send {
    /// Names of the tensors it remembers for each parameter; all start at 0.
    fn moments(&self) -> &'static [&'static str];

    /// Moves all parameters of a batch along their gradients, which may be overwritten.
    fn update(&self, batch: &Batch, rates: Rates) -> Result<(), TchError>;
}

/// Parameters with the same rates, in lists of one length.
struct Batch<'a> {
    parameters: Vec<&'a Tensor>,
    gradients: Vec<&'a Tensor>,
    /// One list for each of [`Rule::moments`].
    moments: Vec<Vec<&'a Tensor>>,
    /// Number of this update, counted from 1; on the device.
    number: &'a Tensor,
    /// If it is there and 1, nothing may move; on the device.
    skip: Option<&'a Tensor>,
}

/// Learning rate and weight decay of a parameter in one step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    lr: f64,
    weight_decay: f64,
}

/// A parameter to be optimised.
#[derive(Debug)]
pub struct Parameter {
    /// Its name, unique in the run.
    pub name: String,
    /// The tensor itself; gradients are read from it.
    pub tensor: Tensor,
    /// The parameter group it belongs to.
    pub group: String,
    /// Times the learning rate of the step.
    pub lr_scale: f64,
    /// Instead of the optimiser's own weight decay.
    pub weight_decay: Option<f64>,
}

struct Slot {
    parameter: Parameter,
    moments: Vec<Tensor>,
}

/// Moves parameters along their gradients.
pub struct Optimizer {
    rule: Box<dyn Rule>,
    slots: Vec<Slot>,
    base_lr: f64,
    weight_decay: f64,
    steps: u64,
    /// Steps in which the parameters moved: all but those skipped because gradients overflowed.
    /// On the device, since only the device knows.
    updates: Tensor,
}

/// How one step differs from others.
#[derive(Debug, Default)]
pub struct StepOptions<'a> {
    /// Times the learning rate.
    pub lr_factor: f64,
    /// Gradients longer than this altogether are shortened to it.
    pub clip_norm: Option<f64>,
    /// Whether the length of the gradient is wanted.
    pub want_norm: bool,
    /// What the loss was multiplied by before gradients were computed.
    pub scale: Option<&'a mut LossScale>,
}

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
                Slot { parameter, moments }
            })
            .collect();
        let updates = Tensor::zeros([], (Kind::Float, device));
        Self { rule, slots, base_lr, weight_decay, steps: 0, updates }
    }

    /// The learning rate of each parameter group when the schedule gives `lr_factor`.
    pub fn learning_rates(&self, lr_factor: f64) -> BTreeMap<String, f64> {
        let rate = |p: &Parameter| (p.group.clone(), self.base_lr * lr_factor * p.lr_scale);
        self.slots.iter().map(|slot| rate(&slot.parameter)).collect()
    }

    /// One step along the gradients, which are gone afterwards. Nothing in it waits for the device.
    ///
    /// Returns the length of the gradient before clipping, still on the device, if it was needed.
    pub fn step(&mut self, options: StepOptions) -> Result<Option<Tensor>, TchError> {
        let _no_grad = tch::no_grad_guard();
        self.steps += 1;
        let mut moving = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            if let Some(gradient) = curricle_torch::take_gradient(&slot.parameter.tensor)? {
                moving.push((slot, gradient));
            }
        }
        let gradients: Vec<&Tensor> = moving.iter().map(|(_, gradient)| gradient).collect();
        let StepOptions { lr_factor, clip_norm, want_norm, mut scale } = options;
        let skip = scale.as_mut().map(|scale| scale.unscale(&gradients)).transpose()?;
        let norm = if want_norm || clip_norm.is_some() { Some(self.norm(&gradients)?) } else { None };
        if let (Some(limit), Some(norm)) = (clip_norm, &norm) {
            // As PyTorch does: the small number avoids 0/0, the clamp leaves short gradients alone.
            curricle_torch::scale(&gradients, &(limit / (norm + 1e-6)).clamp_max(1.0))?;
        }
        match &skip {
            Some(skip) => self.updates += 1.0 - skip,
            None => self.updates += 1.0,
        }
        for (rates, members) in self.by_rates(&moving, lr_factor) {
            let batch = Batch {
                parameters: members.iter().map(|(slot, _)| &slot.parameter.tensor).collect(),
                gradients: members.iter().map(|(_, gradient)| gradient).collect(),
                moments: (0..self.rule.moments().len())
                    .map(|moment| members.iter().map(|(slot, _)| &slot.moments[moment]).collect())
                    .collect(),
                number: &self.updates,
                skip: skip.as_ref(),
            };
            self.rule.update(&batch, rates)?;
        }
        if let Some(scale) = scale {
            scale.adapt()?;
        }
        Ok(norm)
    }

    /// Parameters that share their rates, in the order in which they came.
    fn by_rates<'a>(
        &self,
        moving: &'a [(&'a Slot, Tensor)],
        lr_factor: f64,
    ) -> Vec<(Rates, Vec<&'a (&'a Slot, Tensor)>)> {
        let mut groups: Vec<(Rates, Vec<_>)> = Vec::new();
        for member in moving {
            let parameter = &member.0.parameter;
            let rates = Rates {
                lr: self.base_lr * lr_factor * parameter.lr_scale,
                weight_decay: parameter.weight_decay.unwrap_or(self.weight_decay),
            };
            match groups.iter_mut().find(|(known, _)| *known == rates) {
                Some((_, members)) => members.push(member),
                None => groups.push((rates, vec![member])),
            }
        }
        groups
    }

    fn norm(&self, gradients: &[&Tensor]) -> Result<Tensor, TchError> {
        if gradients.is_empty() { Ok(self.updates.zeros_like()) } else { curricle_torch::norm(gradients) }
    }

    /// How many steps were skipped because gradients overflowed; on the device.
    pub fn skipped(&self) -> Tensor {
        self.steps as f64 - &self.updates
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Everything remembered, under names such as `optimizer.exp_avg.embedding.weight`.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let names = self.rule.moments();
        let of_slot = |slot: &'_ Slot| -> Vec<_> {
            let moments = names.iter().zip(&slot.moments);
            moments.map(|(name, moment)| (state_name(name, &slot.parameter.name), moment.shallow_clone())).collect()
        };
        let mut state: Vec<_> = self.slots.iter().flat_map(of_slot).collect();
        state.push((UPDATES.into(), self.updates.shallow_clone()));
        state
    }

    /// Restores what [`Optimizer::state`] and [`Optimizer::steps`] gave.
    pub fn restore(&mut self, state: &HashMap<String, Tensor>, steps: u64) -> Result<()> {
        let names = self.rule.moments();
        let saved =
            |key: &str| state.get(key).ok_or_else(|| Error::Failed(format!("the checkpoint has no tensor `{key}`")));
        for slot in &mut self.slots {
            for (name, moment) in names.iter().zip(&mut slot.moments) {
                moment.copy_(saved(&state_name(name, &slot.parameter.name))?);
            }
        }
        self.updates.copy_(saved(UPDATES)?);
        self.steps = steps;
        Ok(())
    }
}

fn state_name(moment: &str, parameter: &str) -> String {
    format!("optimizer.{moment}.{parameter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::nn::{self, OptimizerConfig};

    /// A smooth function with unequal curvature.
    fn objective(x: &Tensor) -> Tensor {
        let scale = Tensor::from_slice(&[1.0f32, 10.0, 0.1]);
        ((x - 1.0).square() * scale).sum(Kind::Float)
    }

    fn parameter(x: &Tensor) -> Parameter {
        let (name, group) = ("x".into(), "backbone".into());
        Parameter { name, tensor: x.shallow_clone(), group, lr_scale: 1.0, weight_decay: None }
    }

    /// A step with the optimiser's own learning rate.
    fn step(optimizer: &mut Optimizer) {
        optimizer.step(StepOptions { lr_factor: 1.0, ..Default::default() }).unwrap();
    }

    fn ours(recipe: &OptimizerRecipe, steps: usize) -> Tensor {
        let x = Tensor::from_slice(&[3.0f32, -2.0, 0.5]).set_requires_grad(true);
        let mut optimizer = Optimizer::new(recipe, vec![parameter(&x)]);
        for _ in 0..steps {
            objective(&x).backward();
            step(&mut optimizer);
        }
        x.detach()
    }

    /// libtorch's own optimiser, as an independent source.
    fn theirs(config: impl OptimizerConfig, lr: f64, decay: f64, steps: usize) -> Tensor {
        let variables = nn::VarStore::new(Device::Cpu);
        let x = variables.root().var_copy("x", &Tensor::from_slice(&[3.0f32, -2.0, 0.5]));
        let mut optimizer = config.build(&variables, lr).unwrap();
        optimizer.set_weight_decay(decay);
        for _ in 0..steps {
            optimizer.backward_step(&objective(&x));
        }
        x.detach()
    }

    fn assert_close(a: &Tensor, b: &Tensor) {
        let difference = (a - b).abs().max().double_value(&[]);
        assert!(difference < 1e-5, "{a} and {b} differ by {difference}");
    }

    #[test]
    fn sgd_follows_libtorch() {
        for nesterov in [false, true] {
            let recipe = OptimizerRecipe::Sgd { lr: 0.01, momentum: 0.9, nesterov, weight_decay: 0.1 };
            let config = nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 0.1, nesterov };
            assert_close(&ours(&recipe, 25), &theirs(config, 0.01, 0.1, 25));
        }
    }

    #[test]
    fn adam_follows_libtorch() {
        let recipe = OptimizerRecipe::Adam { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1 };
        assert_close(&ours(&recipe, 25), &theirs(nn::Adam::default(), 0.05, 0.1, 25));
    }

    #[test]
    fn adamw_follows_libtorch() {
        let recipe = OptimizerRecipe::Adamw { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1 };
        assert_close(&ours(&recipe, 25), &theirs(nn::AdamW::default(), 0.05, 0.1, 25));
    }

    #[test]
    fn rmsprop_follows_libtorch() {
        let recipe = OptimizerRecipe::Rmsprop { lr: 0.01, alpha: 0.99, eps: 1e-8, momentum: 0.9, weight_decay: 0.1 };
        let config = nn::RmsProp { momentum: 0.9, ..Default::default() };
        assert_close(&ours(&recipe, 25), &theirs(config, 0.01, 0.1, 25));
    }

    #[test]
    fn a_restored_optimiser_continues_bit_for_bit() {
        let recipe = OptimizerRecipe::Adam { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 };
        let uninterrupted = ours(&recipe, 10);

        let x = Tensor::from_slice(&[3.0f32, -2.0, 0.5]).set_requires_grad(true);
        let mut first = Optimizer::new(&recipe, vec![parameter(&x)]);
        for _ in 0..4 {
            objective(&x).backward();
            step(&mut first);
        }
        let saved = first.state().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect();
        let mut second = Optimizer::new(&recipe, vec![parameter(&x)]);
        second.restore(&saved, first.steps()).unwrap();
        for _ in 0..6 {
            objective(&x).backward();
            step(&mut second);
        }
        assert_eq!(x.detach(), uninterrupted);
    }

    #[test]
    fn clipping_shortens_long_gradients_only() {
        let recipe = OptimizerRecipe::Sgd { lr: 1.0, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
        let clipped = |clip: f64| {
            let x = Tensor::from_slice(&[3.0f32, 4.0]).set_requires_grad(true);
            let mut optimizer = Optimizer::new(&recipe, vec![parameter(&x)]);
            (x.square().sum(Kind::Float) / 2.0).backward();
            let options = StepOptions { lr_factor: 1.0, clip_norm: Some(clip), ..Default::default() };
            let norm = optimizer.step(options).unwrap().unwrap();
            assert!((norm.double_value(&[]) - 5.0).abs() < 1e-6);
            x.detach()
        };
        assert_close(&clipped(100.0), &Tensor::from_slice(&[0.0f32, 0.0]));
        assert_close(&clipped(1.0), &Tensor::from_slice(&[3.0f32 - 0.6, 4.0 - 0.8]));
    }

    /// Every optimiser must leave parameters and moments alone when gradients overflow.
    #[test]
    fn a_step_that_overflows_moves_nothing_and_halves_the_scale() {
        let recipes = [
            OptimizerRecipe::Sgd { lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.1 },
            OptimizerRecipe::Adam { lr: 0.1, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1 },
            OptimizerRecipe::Adamw { lr: 0.1, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1 },
            OptimizerRecipe::Rmsprop { lr: 0.1, alpha: 0.99, eps: 1e-8, momentum: 0.9, weight_decay: 0.1 },
        ];
        for recipe in recipes {
            let x = Tensor::from_slice(&[3.0f32, -2.0, 0.5]).set_requires_grad(true);
            let plain = x.detach().copy().set_requires_grad(true);
            let mut optimizer = Optimizer::new(&recipe, vec![parameter(&x)]);
            let mut unscaled = Optimizer::new(&recipe, vec![parameter(&plain)]);
            let mut scale = LossScale::new(Device::Cpu);
            let first = scale.value().double_value(&[]);
            for overflow in [false, true, false] {
                let before = x.detach().copy();
                let spoilt = if overflow { f64::INFINITY } else { 1.0 };
                scale.apply(&(objective(&x) * spoilt)).backward();
                optimizer.step(StepOptions { lr_factor: 1.0, scale: Some(&mut scale), ..Default::default() }).unwrap();
                if overflow {
                    assert_eq!(x.detach(), before, "{recipe:?}");
                } else {
                    objective(&plain).backward();
                    step(&mut unscaled);
                }
            }
            assert_eq!(scale.value().double_value(&[]), first / 2.0);
            assert_eq!(optimizer.skipped().double_value(&[]), 1.0);
            // The scale is a power of two, so nothing is lost.
            assert_close(&x.detach(), &plain.detach());
        }
    }
}
