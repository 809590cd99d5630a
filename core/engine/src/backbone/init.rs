//! Initial parameters, the same for a seed on every machine and device.
//!
//! The layers' own initialisation draws from libtorch's global generator, so it depends on what
//! was drawn before and on the order of construction. Here every tensor has a stream of its own,
//! named after it.

use curricle_sdk::rng;
use rand::RngExt;
use std::collections::HashMap;
use tch::Tensor;

/// Draws every weight of two or more dimensions, and the bias beside it, from the uniform
/// distribution on ±1/√fan_in: PyTorch's default for linear and convolutional layers. Other
/// tensors (batch norm) keep the constants their layers gave them.
pub(super) fn draw(variables: &HashMap<String, Tensor>, seed: u64) {
    for (name, weight) in variables {
        let size = weight.size();
        let Some(layer) = name.strip_suffix("weight").filter(|_| size.len() >= 2) else { continue };
        let fan_in: i64 = size[1..].iter().product();
        let bound = 1.0 / (fan_in as f32).sqrt();
        fill(weight, name, bound, seed);
        let bias = format!("{layer}bias");
        if let Some(tensor) = variables.get(&bias) {
            fill(tensor, &bias, bound, seed);
        }
    }
}

fn fill(tensor: &Tensor, name: &str, bound: f32, seed: u64) {
    let mut stream = rng::stream(seed, &format!("initial parameter {name}"), 0, 0);
    let values: Vec<f32> = (0..tensor.numel()).map(|_| stream.random_range(-bound..bound)).collect();
    tch::no_grad(|| tensor.shallow_clone().copy_(&Tensor::from_slice(&values).view_as(tensor)));
}
