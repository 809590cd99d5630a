//! Optimisers whose state can be saved.
//!
//! tch hides the moments of libtorch's optimisers, so a resumed run would start with empty ones.
//! These are a few lines each, follow PyTorch's formulas, and keep everything on the device.

mod adam;
mod rmsprop;
mod sgd;

use crate::recipe::OptimizerRecipe;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use tch::Tensor;

/// One update formula.
trait Rule: Send {
    /// Names of the tensors it remembers for each parameter; all start at 0.
    fn moments(&self) -> &'static [&'static str];

    /// Moves `parameter` along `gradient`. `step` counts from 1.
    fn update(&self, parameter: &mut Tensor, gradient: &Tensor, moments: &mut [Tensor], rates: Rates, step: u64);
}

/// Learning rate and weight decay of a parameter in one step.
#[derive(Debug, Clone, Copy)]
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
    /// Steps it took no part in, because it had no gradient: a network may rest while its head is
    /// warmed up. As in PyTorch, they do not count for the parameter.
    rested: u64,
}

/// Moves parameters along their gradients.
pub struct Optimizer {
    rule: Box<dyn Rule>,
    slots: Vec<Slot>,
    base_lr: f64,
    weight_decay: f64,
    steps: u64,
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
        let slots = parameters
            .into_iter()
            .map(|parameter| {
                let moments = rule.moments().iter().map(|_| parameter.tensor.detach().zeros_like()).collect();
                Slot { parameter, moments, rested: 0 }
            })
            .collect();
        Self { rule, slots, base_lr, weight_decay, steps: 0 }
    }

    /// The learning rate of each parameter group when the schedule gives `lr_factor`.
    pub fn learning_rates(&self, lr_factor: f64) -> BTreeMap<String, f64> {
        let rate = |p: &Parameter| (p.group.clone(), self.base_lr * lr_factor * p.lr_scale);
        self.slots.iter().map(|slot| rate(&slot.parameter)).collect()
    }

    /// One step with the learning rate multiplied by `lr_factor`; gradients are cleared.
    ///
    /// Gradients longer than `clip_norm` altogether are shortened to it, on the device. Returns
    /// the length of the gradient before that, still on the device, if it was needed.
    pub fn step(&mut self, lr_factor: f64, clip_norm: Option<f64>, want_norm: bool) -> Option<Tensor> {
        let _no_grad = tch::no_grad_guard();
        self.steps += 1;
        let norm = (want_norm || clip_norm.is_some()).then(|| self.gradient_norm());
        // As PyTorch does: the small number avoids 0/0, the clamp leaves short gradients alone.
        let shrink = clip_norm.zip(norm.as_ref()).map(|(limit, norm)| (limit / (norm + 1e-6)).clamp_max(1.0));
        for Slot { parameter, moments, rested } in &mut self.slots {
            let mut gradient = parameter.tensor.grad();
            if !gradient.defined() {
                *rested += 1;
                continue;
            }
            if let Some(shrink) = &shrink {
                let _ = gradient.g_mul_(shrink);
            }
            let rates = Rates {
                lr: self.base_lr * lr_factor * parameter.lr_scale,
                weight_decay: parameter.weight_decay.unwrap_or(self.weight_decay),
            };
            self.rule.update(&mut parameter.tensor, &gradient, moments, rates, self.steps - *rested);
            parameter.tensor.zero_grad();
        }
        norm
    }

    fn gradient_norm(&self) -> Tensor {
        let norms: Vec<_> = self
            .slots
            .iter()
            .map(|slot| slot.parameter.tensor.grad())
            .filter(Tensor::defined)
            .map(|gradient| gradient.norm())
            .collect();
        if norms.is_empty() { Tensor::from(0.0f32) } else { Tensor::stack(&norms, 0).norm() }
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Everything remembered, under names such as `optimizer.exp_avg.embedding.weight`.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let names = self.rule.moments();
        let rested: Vec<i64> = self.slots.iter().map(|slot| slot.rested as i64).collect();
        let moments = self.slots.iter().flat_map(|slot| {
            names
                .iter()
                .zip(&slot.moments)
                .map(|(name, moment)| (state_name(name, &slot.parameter.name), moment.shallow_clone()))
        });
        moments.chain([(RESTED.to_string(), Tensor::from_slice(&rested))]).collect()
    }

    /// Restores what [`Optimizer::state`] and [`Optimizer::steps`] gave.
    pub fn restore(&mut self, state: &HashMap<String, Tensor>, steps: u64) -> Result<()> {
        let names = self.rule.moments();
        let rested = state.get(RESTED).and_then(|saved| Vec::<i64>::try_from(saved).ok());
        let rested = rested
            .filter(|saved| saved.len() == self.slots.len())
            .ok_or_else(|| Error::Failed(format!("the checkpoint has no tensor `{RESTED}` for these parameters")))?;
        for (slot, rested) in self.slots.iter_mut().zip(rested) {
            slot.rested = rested as u64;
            for (name, moment) in names.iter().zip(&mut slot.moments) {
                let key = state_name(name, &slot.parameter.name);
                let saved =
                    state.get(&key).ok_or_else(|| Error::Failed(format!("the checkpoint has no tensor `{key}`")))?;
                moment.copy_(saved);
            }
        }
        self.steps = steps;
        Ok(())
    }
}

/// Under this name a checkpoint holds the steps that each parameter took no part in.
const RESTED: &str = "optimizer.rested";

fn state_name(moment: &str, parameter: &str) -> String {
    format!("optimizer.{moment}.{parameter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::nn::{self, OptimizerConfig};
    use tch::{Device, Kind};

    /// A smooth function with unequal curvature.
    fn objective(x: &Tensor) -> Tensor {
        let scale = Tensor::from_slice(&[1.0f32, 10.0, 0.1]);
        ((x - 1.0).square() * scale).sum(Kind::Float)
    }

    fn parameter(x: &Tensor) -> Parameter {
        let (name, group) = ("x".into(), "backbone".into());
        Parameter { name, tensor: x.shallow_clone(), group, lr_scale: 1.0, weight_decay: None }
    }

    fn ours(recipe: &OptimizerRecipe, steps: usize) -> Tensor {
        let x = Tensor::from_slice(&[3.0f32, -2.0, 0.5]).set_requires_grad(true);
        let mut optimizer = Optimizer::new(recipe, vec![parameter(&x)]);
        for _ in 0..steps {
            objective(&x).backward();
            optimizer.step(1.0, None, false);
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
            first.step(1.0, None, false);
        }
        let saved = first.state().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect();
        let mut second = Optimizer::new(&recipe, vec![parameter(&x)]);
        second.restore(&saved, first.steps()).unwrap();
        for _ in 0..6 {
            objective(&x).backward();
            second.step(1.0, None, false);
        }
        assert_eq!(x.detach(), uninterrupted);
    }

    #[test]
    fn a_parameter_that_rested_starts_as_if_training_began_then() {
        let recipe = OptimizerRecipe::Adam { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 };
        let x = Tensor::from_slice(&[3.0f32, -2.0, 0.5]).set_requires_grad(true);
        let head = Tensor::from_slice(&[1.0f32]).set_requires_grad(true);
        let mut optimizer =
            Optimizer::new(&recipe, vec![parameter(&x), Parameter { name: "y".into(), ..parameter(&head) }]);
        for _ in 0..100 {
            head.square().sum(Kind::Float).backward();
            optimizer.step(1.0, None, false);
        }
        for _ in 0..5 {
            objective(&x).backward();
            optimizer.step(1.0, None, false);
        }
        assert_eq!(x.detach(), ours(&recipe, 5));
    }

    #[test]
    fn clipping_shortens_long_gradients_only() {
        let recipe = OptimizerRecipe::Sgd { lr: 1.0, momentum: 0.0, nesterov: false, weight_decay: 0.0 };
        let step = |clip: f64| {
            let x = Tensor::from_slice(&[3.0f32, 4.0]).set_requires_grad(true);
            let mut optimizer = Optimizer::new(&recipe, vec![parameter(&x)]);
            (x.square().sum(Kind::Float) / 2.0).backward();
            let norm = optimizer.step(1.0, Some(clip), false).unwrap();
            assert!((norm.double_value(&[]) - 5.0).abs() < 1e-6);
            x.detach()
        };
        assert_close(&step(100.0), &Tensor::from_slice(&[0.0f32, 0.0]));
        assert_close(&step(1.0), &Tensor::from_slice(&[3.0f32 - 0.6, 4.0 - 0.8]));
    }
}
