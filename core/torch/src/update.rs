//! Optimiser steps on many parameters in one call.
//!
//! libtorch's fused kernels read every tensor once and launch one kernel for all of them on CUDA; RMSprop has none
//! and takes a few calls for all parameters. They also take a flag on the device that skips the update, so a step with overflowing gradients is
//! skipped without waiting for the device.

use crate::Result;
use crate::ffi::{self, check, optional, pointers};
use std::ptr::null_mut;
use tch::Tensor;

/// Takes a parameter's gradient and leaves none.
pub fn take_gradient(parameter: &Tensor) -> Result<Option<Tensor>> {
    let mut gradient = null_mut();
    // SAFETY: `as_ptr` gives a live tensor; the result is null or a tensor that is now ours.
    unsafe {
        check(ffi::curricle_take_grad(parameter.as_ptr(), &raw mut gradient))?;
        Ok((!gradient.is_null()).then(|| Tensor::from_ptr(gradient)))
    }
}

/// The L2 norm of all tensors as one vector, on their device. There must be at least one tensor.
pub fn norm(tensors: &[&Tensor]) -> Result<Tensor> {
    let list = pointers(tensors);
    let mut norm = null_mut();
    // SAFETY: the list holds live tensors and the length is its own; on success the result is ours.
    unsafe {
        check(ffi::curricle_norm(list.as_ptr(), list.len(), &raw mut norm))?;
        Ok(Tensor::from_ptr(norm))
    }
}

/// Multiplies all tensors by a scalar, which may be on their device.
pub fn scale(tensors: &[&Tensor], factor: &Tensor) -> Result<()> {
    let list = pointers(tensors);
    // SAFETY: the list holds live tensors and the length is its own.
    check(unsafe { ffi::curricle_scale(list.as_ptr(), list.len(), factor.as_ptr()) })
}

/// Moves each of `tensors` towards its counterpart in `targets`: `t + share · (target - t)`.
pub fn lerp(tensors: &[&Tensor], targets: &[&Tensor], share: f64) -> Result<()> {
    assert_eq!(tensors.len(), targets.len(), "every tensor has a target");
    let (list, targets) = (pointers(tensors), pointers(targets));
    // SAFETY: both lists hold live tensors and have this length.
    check(unsafe { ffi::curricle_lerp(list.as_ptr(), targets.as_ptr(), list.len(), share) })
}

/// Overwrites each of `tensors` with its counterpart in `sources`.
pub fn copy(tensors: &[&Tensor], sources: &[&Tensor]) -> Result<()> {
    assert_eq!(tensors.len(), sources.len(), "every tensor has a source");
    let (list, sources) = (pointers(tensors), pointers(sources));
    // SAFETY: both lists hold live tensors and have this length.
    check(unsafe { ffi::curricle_copy(list.as_ptr(), sources.as_ptr(), list.len()) })
}

/// Multiplies gradients by `inverse` and sets `found_inf` to 1 if any of them is not finite.
pub fn unscale(gradients: &[&Tensor], found_inf: &Tensor, inverse: &Tensor) -> Result<()> {
    let list = pointers(gradients);
    // SAFETY: the list holds live tensors and the length is its own.
    check(unsafe { ffi::curricle_unscale(list.as_ptr(), list.len(), found_inf.as_ptr(), inverse.as_ptr()) })
}

/// Adam and AdamW.
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    /// Learning rate.
    pub lr: f64,
    /// Decay rates β₁ and β₂ of the running averages.
    pub betas: [f64; 2],
    /// Added to the denominator, ε.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// AdamW: the weight decay applies to the parameter instead of its gradient.
    pub decoupled: bool,
}

impl Adam {
    /// Updates all parameters. The lists have the same length; `step` is an f32 on their device that
    /// counts from 1. Nothing changes if `skip` is given and 1.
    pub fn update(
        &self,
        parameters: &[&Tensor],
        gradients: &[&Tensor],
        moments: [&[&Tensor]; 2],
        step: &Tensor,
        skip: Option<&Tensor>,
    ) -> Result<()> {
        let [means, squares] = moments;
        same_length(parameters, &[gradients, means, squares]);
        let [p, g, m, s] = [parameters, gradients, means, squares].map(pointers);
        let [beta1, beta2] = self.betas;
        // SAFETY: all lists hold live tensors and have the stated length.
        check(unsafe {
            ffi::curricle_adam(
                p.as_ptr(),
                g.as_ptr(),
                m.as_ptr(),
                s.as_ptr(),
                p.len(),
                step.as_ptr(),
                self.lr,
                beta1,
                beta2,
                self.weight_decay,
                self.eps,
                self.decoupled,
                optional(skip),
            )
        })
    }
}

/// Stochastic gradient descent with momentum.
#[derive(Debug, Clone, Copy)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
    /// Momentum.
    pub momentum: f64,
    /// Nesterov momentum.
    pub nesterov: bool,
    /// Weight decay (L2), added to the gradient.
    pub weight_decay: f64,
}

impl Sgd {
    /// Updates all parameters. `momenta` has the length of the other lists, or is empty if
    /// `momentum` is 0. Nothing changes if `skip` is given and 1.
    pub fn update(
        &self,
        parameters: &[&Tensor],
        gradients: &[&Tensor],
        momenta: &[&Tensor],
        skip: Option<&Tensor>,
    ) -> Result<()> {
        same_length(parameters, &[gradients]);
        if self.momentum != 0.0 {
            same_length(parameters, &[momenta]);
        }
        let [p, g, m] = [parameters, gradients, momenta].map(pointers);
        // SAFETY: all lists hold live tensors and have the stated length; the momenta are not read if
        // `momentum` is 0.
        check(unsafe {
            ffi::curricle_sgd(
                p.as_ptr(),
                g.as_ptr(),
                m.as_ptr(),
                p.len(),
                self.lr,
                self.momentum,
                self.weight_decay,
                self.nesterov,
                optional(skip),
            )
        })
    }
}

/// RMSprop with momentum.
#[derive(Debug, Clone, Copy)]
pub struct Rmsprop {
    /// Learning rate.
    pub lr: f64,
    /// Decay rate α of the running average of the squared gradient.
    pub alpha: f64,
    /// Added to the denominator, ε.
    pub eps: f64,
    /// Momentum.
    pub momentum: f64,
    /// Weight decay (L2), added to the gradient.
    pub weight_decay: f64,
}

impl Rmsprop {
    /// Updates all parameters. `momenta` has the length of the other lists, or is empty if
    /// `momentum` is 0. Nothing changes if `skip` is given and 1.
    pub fn update(
        &self,
        parameters: &[&Tensor],
        gradients: &[&Tensor],
        squares: &[&Tensor],
        momenta: &[&Tensor],
        skip: Option<&Tensor>,
    ) -> Result<()> {
        same_length(parameters, &[gradients, squares]);
        if self.momentum != 0.0 {
            same_length(parameters, &[momenta]);
        }
        let [p, g, s, m] = [parameters, gradients, squares, momenta].map(pointers);
        // SAFETY: all lists hold live tensors and have the stated length; the momenta are not read if
        // `momentum` is 0.
        check(unsafe {
            ffi::curricle_rmsprop(
                p.as_ptr(),
                g.as_ptr(),
                s.as_ptr(),
                m.as_ptr(),
                p.len(),
                self.lr,
                self.alpha,
                self.eps,
                self.momentum,
                self.weight_decay,
                optional(skip),
            )
        })
    }
}

/// The C++ side trusts the lengths, so a wrong one must not reach it.
fn same_length(parameters: &[&Tensor], others: &[&[&Tensor]]) {
    assert!(others.iter().all(|other| other.len() == parameters.len()), "lists of tensors of different lengths");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn filled(size: &[i64], value: f64) -> Tensor {
        Tensor::full(size, value, (Kind::Float, Device::Cpu))
    }

    /// The same tensor in channels-last layout.
    fn channels_last(tensor: &Tensor) -> Tensor {
        tensor.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
    }

    #[test]
    fn a_taken_gradient_leaves_none() {
        let x = Tensor::from_slice(&[3.0f32]).set_requires_grad(true);
        assert!(take_gradient(&x).unwrap().is_none());
        x.square().backward();
        assert_eq!(take_gradient(&x).unwrap(), Some(Tensor::from_slice(&[6.0f32])));
        assert!(!x.grad().defined());
        x.square().backward();
        assert_eq!(x.grad(), Tensor::from_slice(&[6.0f32]), "the old gradient is not added to");
    }

    #[test]
    fn the_norm_spans_all_tensors() {
        let norm = norm(&[&filled(&[1], 3.0), &filled(&[4], 2.0)]).unwrap();
        assert_eq!(norm.double_value(&[]), 5.0);
    }

    #[test]
    fn a_gradient_in_another_layout_reaches_the_right_elements() {
        let adam = Adam { lr: 0.1, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1, decoupled: true };
        let start = Tensor::randn([2, 3, 2, 2], (Kind::Float, Device::Cpu));
        let gradient = Tensor::randn([2, 3, 2, 2], (Kind::Float, Device::Cpu));
        let step = filled(&[], 1.0);
        let moved = |parameter: &Tensor, gradient: &Tensor| {
            let moments = [parameter.zeros_like(), parameter.zeros_like()];
            adam.update(&[parameter], &[gradient], [&[&moments[0]], &[&moments[1]]], &step, None).unwrap();
        };
        let plain = start.copy();
        moved(&plain, &gradient);
        let last = channels_last(&start).copy();
        moved(&last, &gradient);
        assert_ne!(plain.stride(), last.stride());
        assert_ne!(plain, start);
        assert!((&plain - &last).abs().max().double_value(&[]) < 1e-6);
    }

    #[test]
    fn a_step_with_an_infinite_gradient_is_skipped() {
        let (parameter, momentum) = (filled(&[2], 1.0), filled(&[2], 0.0));
        let sgd = Sgd { lr: 0.1, momentum: 0.9, nesterov: false, weight_decay: 0.0 };
        let inverse = filled(&[], 0.25);
        for (value, skipped) in [(f64::INFINITY, true), (8.0, false)] {
            let (gradient, found) = (filled(&[2], value), filled(&[], 0.0));
            unscale(&[&gradient], &found, &inverse).unwrap();
            assert_eq!(found.double_value(&[]), f64::from(u8::from(skipped)));
            sgd.update(&[&parameter], &[&gradient], &[&momentum], Some(&found)).unwrap();
            let expected = if skipped { 1.0 } else { 1.0 - 0.1 * 2.0 };
            assert!((parameter.double_value(&[0]) - expected).abs() < 1e-6);
        }
    }
}
