//! How a network computes: precision, memory format and CUDA flags.

use crate::data::Layout;
use crate::recipe::{Precision, TrainRecipe};
use crate::{Error, Result};
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
    /// oneDNN on the CPU (measured; see `docs/cuda.md`). Plain f32 convolutions on CUDA are not.
    pub fn choose(train: &TrainRecipe, layout: Layout, device: Device) -> Self {
        let images = matches!(layout, Layout::Images { .. });
        let short = train.precision != Precision::F32 || train.tf32;
        Self { precision: train.precision, channels_last: images && (short || !device.is_cuda()) }
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

/// Sets libtorch's CUDA flags as the recipe asks, and logs them. Does nothing on the CPU.
pub fn set_switches(train: &TrainRecipe, device: Device) -> Result<()> {
    if !device.is_cuda() {
        return Ok(());
    }
    let failed = |e: tch::TchError| Error::Torch { during: "setting up CUDA", source: e.into() };
    if train.deterministic && std::env::var_os(CUBLAS_WORKSPACE).is_none() {
        // SAFETY: this runs before libtorch first uses cuBLAS, which reads the variable, and no other
        // thread of this program reads or writes the environment.
        unsafe { std::env::set_var(CUBLAS_WORKSPACE, ":4096:8") };
    }
    curricle_torch::set_tf32(train.tf32).map_err(failed)?;
    curricle_torch::set_deterministic(train.deterministic).map_err(failed)?;
    // Autotuning may choose a different algorithm in the next run.
    tch::Cuda::cudnn_set_benchmark(!train.deterministic);
    let on = |switch| if switch { "on" } else { "off" };
    tracing::info!(
        "cuda: TF32 in convolutions {}, deterministic {}, cuDNN autotuning {}",
        on(train.tf32),
        on(train.deterministic),
        on(!train.deterministic)
    );
    Ok(())
}

/// cuBLAS is deterministic only with a workspace of fixed size.
const CUBLAS_WORKSPACE: &str = "CUBLAS_WORKSPACE_CONFIG";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arranging_changes_neither_values_nor_shape() {
        let images = Tensor::randint(256, [2, 3, 4, 5], (Kind::Uint8, Device::Cpu));
        for channels_last in [false, true] {
            let compute = Compute { channels_last, ..Default::default() };
            let arranged = compute.arrange(&images);
            assert_eq!(arranged, images);
            assert_eq!(arranged.stride()[1] == 1, channels_last);
            assert_eq!(compute.arrange(&arranged).stride(), arranged.stride());
        }
        let features = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
        assert_eq!(Compute { channels_last: true, ..Default::default() }.arrange(&features).stride(), [3, 1]);
    }
}
