//! The switches of libtorch's CUDA half.

use crate::{Error, Result};
use curricle_recipe::TrainRecipe;
use tch::Device;

/// Makes f32 exact for every command: no TF32 in products or convolutions. A run then sets what its recipe asks for.
///
/// libtorch reads the size of the cuBLAS workspace at its first product, so it is set here even though only
/// deterministic runs need it.
pub(super) fn exact() -> curricle_torch::Result<()> {
    if std::env::var_os(CUBLAS_WORKSPACE).is_none() {
        // SAFETY: this runs before libtorch first uses cuBLAS, which reads the variable, and no other
        // thread of this program reads or writes the environment.
        unsafe { std::env::set_var(CUBLAS_WORKSPACE, ":4096:8") };
    }
    curricle_torch::set_tf32(false)
}

/// Sets libtorch's CUDA flags as the recipe asks, and logs them. Does nothing on the CPU.
pub(crate) fn set_switches(train: &TrainRecipe, device: Device) -> Result<()> {
    if !device.is_cuda() {
        return Ok(());
    }
    let failed = |e: tch::TchError| Error::Torch { during: "setting up CUDA", source: e.into() };
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
