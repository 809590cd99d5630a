//! Initial parameters, which depend only on the seed and not on the machine or device.
//!
//! The default initialisation of layers draws from libtorch's global generator, so it depends on
//! earlier draws and on the order of construction. Here every tensor has its own random stream,
//! named after it.

use curricle_rng as rng;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use tch::Tensor;

/// The initialisation scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Uniform on ±1/√fan_in, biases too: PyTorch's default for linear and convolutional layers.
    Default,
    /// Normal with variance 2/fan_out, biases 0: torchvision's default for networks with ReLU.
    KaimingFanOut,
    /// Normal with standard deviation 0.02, biases 0, and PyTorch's default for the patch embedding: as in timm.
    Transformer,
}

/// Standard deviation of a vision transformer's initial tokens, as in timm; other tensors that are not weights of
/// layers have 0.02.
const TOKEN_STD: f64 = 1e-6;

/// Draws every weight of two or more dimensions whose name starts with `prefix`, and its bias. Other
/// tensors (batch norm) keep the constants their layers set.
pub(super) fn draw(variables: &HashMap<String, Tensor>, prefix: &str, scheme: Scheme, seed: u64) {
    for (name, weight) in variables.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let size = weight.size();
        if scheme == Scheme::Transformer && matches!(size.len(), 2 | 3) {
            let is_token = name.ends_with("cls_token") || name.ends_with("reg_token");
            fill(weight, name, seed, normal(if is_token { TOKEN_STD } else { 0.02 }));
            continue;
        }
        let Some(layer) = name.strip_suffix("weight").filter(|_| size.len() >= 2) else { continue };
        if scheme == Scheme::KaimingFanOut {
            let fan_out = size[0] * size[2..].iter().product::<i64>();
            fill(weight, name, seed, normal((2.0 / fan_out as f64).sqrt()));
            continue;
        }
        let fan_in: i64 = size[1..].iter().product();
        let bound = 1.0 / (fan_in as f32).sqrt();
        fill(weight, name, seed, |stream| stream.random_range(-bound..bound));
        let bias = format!("{layer}bias");
        if let Some(tensor) = variables.get(&bias) {
            fill(tensor, &bias, seed, |stream| stream.random_range(-bound..bound));
        }
    }
}

fn normal(std: f64) -> impl Fn(&mut ChaCha8Rng) -> f32 {
    move |stream| (standard_normal(stream) * std) as f32
}

fn fill(tensor: &Tensor, name: &str, seed: u64, mut number: impl FnMut(&mut ChaCha8Rng) -> f32) {
    let mut stream = rng::stream(seed, &format!("initial parameter {name}"), 0, 0);
    let values: Vec<f32> = (0..tensor.numel()).map(|_| number(&mut stream)).collect();
    tch::no_grad(|| tensor.shallow_clone().copy_(&Tensor::from_slice(&values).view_as(tensor)));
}

/// The Box-Muller transform, which is good enough for initial values.
pub(crate) fn standard_normal(stream: &mut impl rand::Rng) -> f64 {
    let (u, v): (f64, f64) = (stream.random(), stream.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
