//! A small training step on a CUDA device: what the first step of a run needs, and a device can fail at.

use crate::device;
use curricle_torch::Autocast;
use serde::Serialize;
use tch::{Device, Kind, Tensor};

/// A convolution, a matrix product and their gradients on a device in one precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceTrial {
    /// The device as `--device` spells it.
    pub device: String,
    /// The precision as `train.precision` spells it.
    pub precision: &'static str,
    /// What went wrong; `None` if the results are those of the CPU up to rounding.
    pub error: Option<String>,
}

/// Tries a device in f32 and bf16.
pub(super) fn try_device(device: Device) -> Vec<DeviceTrial> {
    [("f32", None, 1e-4), ("bf16", Some(Kind::BFloat16), 5e-2)]
        .into_iter()
        .map(|(precision, kind, tolerance)| {
            let error = curricle_sdk::guard(|| compare(device, kind, tolerance)).err().map(|error| error.to_string());
            DeviceTrial { device: device::name(device), precision, error }
        })
        .collect()
}

/// Compares with the same step on the CPU in f32; the error is relative to the largest number.
fn compare(device: Device, kind: Option<Kind>, tolerance: f64) -> curricle_sdk::Result<()> {
    let names = ["the output", "the gradient of a convolution", "the gradient of a matrix product"];
    for ((name, found), wanted) in names.iter().zip(step(device, kind)?).zip(step(Device::Cpu, None)?) {
        let found = found.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?;
        let error = f64::try_from((found - &wanted).abs().max())? / f64::try_from(wanted.abs().max())?;
        // Not `>`, which is false for NaN.
        if !matches!(error.partial_cmp(&tolerance), Some(std::cmp::Ordering::Less)) {
            return Err(curricle_sdk::Error::other(format!("{name} differs from the CPU's by {error:.1e}")));
        }
    }
    Ok(())
}

/// Output and gradients of a network with one convolution and one linear layer.
fn step(device: Device, kind: Option<Kind>) -> curricle_sdk::Result<[Tensor; 3]> {
    let waves = |shape: &[i64]| -> curricle_sdk::Result<Tensor> {
        let numbers = Tensor::f_arange(shape.iter().product::<i64>(), (Kind::Float, Device::Cpu))?;
        Ok(numbers.f_sin()?.f_view(shape)?.f_to_device(device)?)
    };
    let images = waves(&[2, 3, 16, 16])?;
    let filters = waves(&[8, 3, 3, 3])?.set_requires_grad(true);
    let matrix = waves(&[8, 4])?.set_requires_grad(true);
    let output = {
        let _autocast = kind.map(|kind| Autocast::enter(device, kind)).transpose()?;
        let maps = images.f_conv2d(&filters, None::<Tensor>, [1, 1], [1, 1], [1, 1], 1)?;
        maps.f_relu()?.f_mean_dim([2i64, 3].as_slice(), false, None)?.f_matmul(&matrix)?
    };
    output.f_to_kind(Kind::Float)?.f_square()?.f_sum(Kind::Float)?.f_backward()?;
    Ok([output.detach(), filters.grad(), matrix.grad()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_passes_in_both_precisions() {
        for trial in try_device(Device::Cpu) {
            assert_eq!(trial.error, None, "{}", trial.precision);
        }
    }

    #[test]
    fn a_difference_beyond_the_tolerance_is_an_error() {
        let bf16 = compare(Device::Cpu, Some(Kind::BFloat16), 1e-9).unwrap_err().to_string();
        assert!(bf16.contains("the output differs from the CPU's by"), "{bf16}");
    }
}
