//! How a network computes: type of numbers and layout in memory.

use crate::data::Layout;
use curricle_recipe::{Precision, TrainRecipe};
use curricle_torch::Autocast;
use std::fmt;
use tch::{Device, Kind, Tensor};

/// How the forward pass of a network computes. Parameters are f32 whatever it says, and files hold them
/// in the usual layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compute {
    /// Type of the numbers in products and convolutions.
    pub precision: Precision,
    /// Whether pictures lie in memory pixel by pixel (`channels_last`) instead of channel by channel.
    pub channels_last: bool,
}

impl Compute {
    /// What is fastest for the recipe on the device.
    ///
    /// Convolutions of short numbers and TF32 run on tensor cores, which want pixels together; so does
    /// oneDNN on the CPU (measured; see `docs/cuda.md`). Plain f32 convolutions on CUDA do not.
    pub fn choose(train: &TrainRecipe, layout: Layout, device: Device) -> Self {
        let pictures = matches!(layout, Layout::Images { .. });
        let short = train.precision != Precision::F32 || train.tf32;
        Self { precision: train.precision, channels_last: pictures && (short || !device.is_cuda()) }
    }

    /// In f32, for models that are used after training.
    pub fn exact(layout: Layout, device: Device) -> Self {
        let pictures = matches!(layout, Layout::Images { .. });
        Self { precision: Precision::F32, channels_last: pictures && !device.is_cuda() }
    }

    /// Short numbers until the guard is dropped, or nothing to do for f32.
    pub fn autocast(self, device: Device) -> Option<Autocast> {
        let kind = match self.precision {
            Precision::F32 => return None,
            Precision::Bf16 => Kind::BFloat16,
            Precision::F16 => Kind::Half,
        };
        Some(Autocast::enter(device, kind).expect("libtorch casts to both short types on every device"))
    }

    /// Pictures `[B, C, H, W]` in the layout wanted; anything else as it is. Values and shape stay.
    pub fn arrange(self, inputs: &Tensor) -> Tensor {
        match (inputs.dim(), self.channels_last) {
            (4, true) => inputs.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]),
            (4, false) => inputs.contiguous(),
            _ => inputs.shallow_clone(),
        }
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}, {}", self.precision, if self.channels_last { "channels last" } else { "channels first" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arranging_changes_neither_values_nor_shape() {
        let pictures = Tensor::randint(256, [2, 3, 4, 5], (Kind::Uint8, Device::Cpu));
        for channels_last in [false, true] {
            let compute = Compute { channels_last, ..Default::default() };
            let arranged = compute.arrange(&pictures);
            assert_eq!(arranged, pictures);
            assert_eq!(arranged.stride()[1] == 1, channels_last);
            assert_eq!(compute.arrange(&arranged).stride(), arranged.stride());
        }
        let features = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
        assert_eq!(Compute { channels_last: true, ..Default::default() }.arrange(&features).stride(), [3, 1]);
    }
}
