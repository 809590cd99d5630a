//! Optimisers compared with libtorch's, and saving and restoring their state.

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

/// A step with the base learning rate.
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

/// libtorch's optimiser, as an independent reference.
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
fn sgd_matches_libtorch() {
    for nesterov in [false, true] {
        let recipe = OptimizerRecipe::Sgd { lr: 0.01, momentum: 0.9, nesterov, weight_decay: 0.1 };
        let config = nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 0.1, nesterov };
        assert_close(&ours(&recipe, 25), &theirs(config, 0.01, 0.1, 25));
    }
}

#[test]
fn adam_matches_libtorch() {
    let recipe = OptimizerRecipe::Adam { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1 };
    assert_close(&ours(&recipe, 25), &theirs(nn::Adam::default(), 0.05, 0.1, 25));
}

#[test]
fn adamw_matches_libtorch() {
    let recipe = OptimizerRecipe::Adamw { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.1 };
    assert_close(&ours(&recipe, 25), &theirs(nn::AdamW::default(), 0.05, 0.1, 25));
}

#[test]
fn rmsprop_matches_libtorch() {
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
fn a_parameter_without_gradients_so_far_starts_with_a_fresh_update_count() {
    let recipe = OptimizerRecipe::Adam { lr: 0.05, betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 };
    let x = Tensor::from_slice(&[3.0f32, -2.0, 0.5]).set_requires_grad(true);
    let head = Tensor::from_slice(&[1.0f32]).set_requires_grad(true);
    let mut optimizer =
        Optimizer::new(&recipe, vec![parameter(&x), Parameter { name: "y".into(), ..parameter(&head) }]);
    for _ in 0..100 {
        head.square().sum(Kind::Float).backward();
        step(&mut optimizer);
    }
    for _ in 0..5 {
        objective(&x).backward();
        step(&mut optimizer);
    }
    assert_eq!(x.detach(), ours(&recipe, 5));
}

#[test]
fn clipping_only_affects_long_gradients() {
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

/// No optimiser may change parameters or moments when gradients overflow.
#[test]
fn an_overflowing_step_is_skipped_and_halves_the_scale() {
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
            let factor = if overflow { f64::INFINITY } else { 1.0 };
            scale.apply(&(objective(&x) * factor)).backward();
            optimizer.step(StepOptions { lr_factor: 1.0, scale: Some(&mut scale), ..Default::default() }).unwrap();
            if overflow {
                assert_eq!(x.detach(), before, "{recipe:?}");
            } else {
                objective(&plain).backward();
                step(&mut unscaled);
            }
        }
        assert_eq!(scale.value().double_value(&[]), first / 2.0);
        assert_eq!(scale.skipped().double_value(&[]), 1.0);
        // The scale is a power of two, so scaling does not round.
        assert_close(&x.detach(), &plain.detach());
    }
}
