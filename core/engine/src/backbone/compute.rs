//! How a network computes: precision, memory format and CUDA flags.

use crate::data::Layout;
use crate::{Error, Result};
use curricle_recipe::{Precision, TrainRecipe};
use curricle_torch::Autocast;
use std::fmt;
use tch::{Device, Kind, Tensor};

/// How the forward pass computes. Parameters are always f32, and files always store them contiguously.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compute {
    /// Precision of matrix products and convolutions.
    pub precision: Precision,
    /// Whether images are stored as NHWC (`channels_last`) instead of NCHW.
    pub channels_last: bool,
}

impl Compute {
    /// The fastest choice for the recipe on the device.
    ///
    /// 16-bit and TF32 convolutions run on tensor cores, which are faster with channels last; so is
    /// oneDNN on the CPU (measured; see `docs/cuda.md`). Plain f32 convolutions on CUDA are not, nor those of GPUs
    /// without TF32, before compute capability 8.0.
    pub fn choose(train: &TrainRecipe, layout: Layout, device: Device) -> Result<Self> {
        let images = matches!(layout, Layout::Images { .. });
        let short = train.precision != Precision::F32 || (train.tf32 && computes_bf16(device)?);
        Ok(Self { precision: train.precision, channels_last: images && (short || !device.is_cuda()) })
    }

    /// A sentence for those who could train faster on this device.
    pub(crate) fn advice(self, layout: Layout, device: Device) -> Result<Option<&'static str>> {
        let slower = self.precision == Precision::F32 && matches!(layout, Layout::Images { .. });
        Ok((slower && computes_bf16(device)?).then_some(
            "this GPU has fast arithmetic in bf16: `train.precision = \"bf16\"` trains faster and with less memory, \
             but is a different run",
        ))
    }

    /// Always f32, for models used after training.
    pub fn exact(layout: Layout, device: Device) -> Self {
        let images = matches!(layout, Layout::Images { .. });
        Self { precision: Precision::F32, channels_last: images && !device.is_cuda() }
    }

    /// Enables autocast until the guard is dropped; `None` for f32.
    pub fn autocast(self, device: Device) -> Option<Autocast> {
        let kind = match self.precision {
            Precision::F32 => return None,
            Precision::Bf16 => Kind::BFloat16,
            Precision::F16 => Kind::Half,
        };
        Some(Autocast::enter(device, kind).expect("libtorch casts to both short types on every device"))
    }

    /// Images `[B, C, H, W]` in this memory format; other tensors unchanged. Values and shape do not change.
    pub(crate) fn arrange(self, inputs: &Tensor) -> Tensor {
        match (inputs.dim(), self.channels_last) {
            (4, true) => channels_last(inputs),
            (4, false) => channels_first(inputs),
            _ => inputs.shallow_clone(),
        }
    }
}

/// A tensor with the strides of channels last.
///
/// With one channel or one pixel both formats have the same bytes, and `contiguous` keeps the strides of channels first.
/// libtorch reads the format off the strides, so it would compute the following layers channels first.
fn channels_last(inputs: &Tensor) -> Tensor {
    let size = inputs.size();
    let (channels, row) = (size[1], size[1] * size[3]);
    let stride = [row * size[2], 1, row, channels];
    inputs.permute([0, 2, 3, 1]).contiguous().as_strided(&size, stride, None)
}

/// A tensor with the usual strides, also where those of channels last are the same bytes.
fn channels_first(inputs: &Tensor) -> Tensor {
    let size = inputs.size();
    let map = size[2] * size[3];
    inputs.contiguous().as_strided(&size, [size[1] * map, map, size[3], 1], None)
}

fn computes_bf16(device: Device) -> Result<bool> {
    curricle_torch::computes_bf16(device).map_err(|e| Error::Torch { during: "asking the device", source: e.into() })
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
        for size in [[2, 3, 4, 5], [2, 1, 4, 5], [2, 3, 1, 1]] {
            let images = Tensor::randint(256, size, (Kind::Uint8, Device::Cpu));
            for channels_last in [false, true] {
                let compute = Compute { channels_last, ..Default::default() };
                let arranged = compute.arrange(&images);
                assert_eq!(arranged, images);
                assert_eq!(arranged.is_contiguous(), !channels_last || size[1] == 1 || size[2..] == [1, 1]);
                assert_eq!(arranged.stride()[1] == 1, channels_last || size[2..] == [1, 1], "{size:?}");
                assert_eq!(compute.arrange(&arranged).stride(), arranged.stride());
            }
        }
        let features = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
        assert_eq!(Compute { channels_last: true, ..Default::default() }.arrange(&features).stride(), [3, 1]);
    }
}
