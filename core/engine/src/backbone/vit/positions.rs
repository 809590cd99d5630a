//! Position embeddings, interpolated to the size of the image.
//!
//! The interpolation is timm's (`resample_abs_pos_embed`): bicubic with antialiasing to the size of the new grid,
//! which is also what DINOv2's code does with `interpolate_antialias` and without `interpolate_offset`. It is linear, so
//! here it is a product with a matrix, which is computed once: libtorch's own backward pass adds in no fixed order on
//! CUDA.

use std::sync::Mutex;
use tch::nn::{self, Init};
use tch::{Device, Kind, Tensor};

/// Learned position embeddings of a square grid of patches.
#[derive(Debug)]
pub(super) struct Positions {
    /// `[1, before + grid², D]`; the first ones belong to the tokens before the patches.
    embeddings: Tensor,
    before: i64,
    grid: i64,
    /// The matrix for the last other grid, `[height width, grid²]` in f64.
    matrix: Mutex<Option<((i64, i64), Tensor)>>,
}

impl Positions {
    pub(super) fn new(path: &nn::Path, before: i64, grid: i64, width: i64) -> Self {
        let embeddings = path.var("pos_embed", &[1, before + grid * grid, width], Init::Const(0.0));
        Self { embeddings, before, grid, matrix: Mutex::new(None) }
    }

    /// The embeddings of the tokens before the patches, `[1, before, D]`.
    pub(super) fn of_tokens(&self) -> Option<Tensor> {
        (self.before > 0).then(|| self.embeddings.narrow(1, 0, self.before))
    }

    /// The embeddings of a grid of patches, `[1, height width, D]`.
    pub(super) fn of_patches(&self, height: i64, width: i64) -> Tensor {
        let own = self.embeddings.narrow(1, self.before, self.grid * self.grid);
        if (height, width) == (self.grid, self.grid) {
            return own;
        }
        // Autocast leaves f64 alone.
        let matrix = self.matrix((height, width), own.device());
        matrix.matmul(&own.squeeze_dim(0).to_kind(Kind::Double)).to_kind(own.kind()).unsqueeze(0)
    }

    fn matrix(&self, size: (i64, i64), device: Device) -> Tensor {
        let mut cached = self.matrix.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, matrix)) = cached.as_ref().filter(|(other, matrix)| *other == size && matrix.device() == device)
        {
            return matrix.shallow_clone();
        }
        let matrix = tch::no_grad(|| interpolation(self.grid, size).to_device(device));
        *cached = Some((size, matrix.shallow_clone()));
        matrix
    }
}

/// The matrix that interpolates a grid: the images of all unit vectors.
fn interpolation(grid: i64, (height, width): (i64, i64)) -> Tensor {
    let unit = Tensor::eye(grid * grid, (Kind::Double, Device::Cpu)).view([1, grid * grid, grid, grid]);
    unit.internal_upsample_bicubic2d_aa([height, width], false, None, None)
        .flatten(2, 3)
        .squeeze_dim(0)
        .tr()
        .contiguous()
}
