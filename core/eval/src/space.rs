//! Prepares embeddings for evaluation: unit norm, on a grid that makes similarities exact.
//!
//! The last bits of the f32 product of two embeddings depend on the shape of the block it was computed
//! in, the number of threads and the device, so two copies of one image may get slightly different
//! similarities, and so may (i, j) and (j, i). Rankings would then depend on the machine wherever two
//! neighbours are (nearly) tied.
//!
//! Coordinates are therefore rounded to multiples of 2⁻²⁶, which is below the resolution of f32 for all
//! but small coordinates. Products are then multiples of 2⁻⁵², and no partial sum of a unit vector's
//! products reaches 2, so an f64 dot product is *exact* in any order of summation. Fast f32 products
//! find candidates, their error is bounded ([`margin`]), and candidates closer to each other than the
//! bound are compared by [`dot`].

use crate::{Error, Result};
use curricle_sdk::guard;
use tch::{Device, Kind, Tensor};

/// Coordinates are multiples of 1 / `GRID`.
const GRID: f32 = (1u32 << 26) as f32;
/// Largest deviation from 1 of a unit norm; half precision stays well below.
const UNIT_TOLERANCE: f64 = 2e-3;

/// Unit-norm embeddings on the grid.
pub(super) struct Space {
    /// `[N, D]`, f32, on the device of the embeddings.
    pub points: Tensor,
    host: Tensor,
    /// Whether the embeddings did not have unit norm.
    pub rescaled: bool,
}

impl Space {
    /// Normalises embeddings `[N, D]` of any floating-point kind. The error names a row that has no
    /// direction.
    pub(crate) fn new(embeddings: &Tensor) -> Result<Self> {
        let size = embeddings.size();
        if size.len() != 2 || size[0] == 0 || size[1] == 0 {
            return Err(Error::Input(format!(
                "embeddings have shape {size:?}, but it must be `[samples, dimensions]`"
            )));
        }
        let (points, host, norms) = guard(|| {
            let (points, norms) = normalise(embeddings);
            let host = points.to_device(Device::Cpu);
            let norms: Vec<f64> = norms.to_device(Device::Cpu).try_into()?;
            Ok((points, host, norms))
        })
        .map_err(|source| Error::Torch { during: "normalising embeddings", source })?;
        check_norms(&norms)?;
        let rescaled = norms.iter().any(|n| (n - 1.0).abs() > UNIT_TOLERANCE);
        Ok(Self { points, host, rescaled })
    }

    /// Number of embeddings.
    pub(crate) fn len(&self) -> usize {
        self.points.size()[0] as usize
    }

    /// The embeddings in host memory.
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { data: as_slice(&self.host), dim: self.points.size()[1] as usize }
    }

    /// The embeddings of these samples, on the device. Selecting all samples copies nothing.
    pub(crate) fn select(&self, ids: &[u32]) -> Tensor {
        if ids.len() == self.len() && ids.iter().enumerate().all(|(i, &id)| i == id as usize) {
            return self.points.shallow_clone();
        }
        let ids: Vec<i64> = ids.iter().map(|&i| i64::from(i)).collect();
        self.points.index_select(0, &Tensor::from_slice(&ids).to_device(self.points.device()))
    }
}

fn check_norms(norms: &[f64]) -> Result<()> {
    for (row, norm) in norms.iter().enumerate() {
        if !norm.is_finite() {
            return Err(Error::Input(format!("row {row} of the embeddings contains NaN, infinite or huge values")));
        }
        if *norm == 0.0 {
            return Err(Error::Input(format!(
                "row {row} of the embeddings is zero, so its similarities are undefined; remove it or recompute it"
            )));
        }
    }
    Ok(())
}

/// Unit vectors on the grid, and the original norms. In f64, since an error in a norm affects all
/// similarities of that sample; in blocks, to save memory.
fn normalise(embeddings: &Tensor) -> (Tensor, Tensor) {
    const ROWS: i64 = 4096;
    let samples = embeddings.size()[0];
    let points = Tensor::empty(embeddings.size(), (Kind::Float, embeddings.device()));
    let mut norms = Vec::new();
    for start in (0..samples).step_by(ROWS as usize) {
        let rows = ROWS.min(samples - start);
        let block = embeddings.detach().narrow(0, start, rows).to_kind(Kind::Double);
        let norm = block.norm_scalaropt_dim(2, [1i64].as_slice(), true);
        // To f32 first: for large coordinates the grid is finer than f32.
        let unit = (block / &norm).to_kind(Kind::Float);
        points.narrow(0, start, rows).copy_(&((unit * f64::from(GRID)).round() / f64::from(GRID)));
        norms.push(norm.view(-1));
    }
    (points, Tensor::cat(&norms, 0))
}

/// The nearest grid value.
pub(super) fn round_to_grid(value: f64) -> f32 {
    (value as f32 * GRID).round_ties_even() / GRID
}

/// Embeddings in host memory.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    data: &'a [f32],
    /// Number of dimensions.
    pub dim: usize,
}

impl<'a> Rows<'a> {
    /// One embedding.
    pub(crate) fn row(&self, i: u32) -> &'a [f32] {
        &self.data[i as usize * self.dim..][..self.dim]
    }
}

/// The dot product of two vectors on the grid, of norm at most 1: exact.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f64 = a.remainder().iter().zip(b.remainder()).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
    let mut sums = [0.0; LANES];
    for (x, y) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += f64::from(x[lane]) * f64::from(y[lane]);
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Two f32 similarities of `dim`-dimensional vectors that differ by more than this are in the right order.
///
/// An f32 dot product of unit vectors is off by at most `dim · 2⁻²⁴` in any order of summation, the
/// difference of two by twice that. The additional 4 covers norms that are not exactly 1, one more
/// term, and the rounding of the comparison itself.
pub(super) fn margin(dim: usize) -> f32 {
    (dim + 4) as f32 * f32::EPSILON
}

/// The memory of a contiguous f32 tensor on the CPU.
pub(super) fn as_slice(tensor: &Tensor) -> &[f32] {
    assert!(
        tensor.is_contiguous() && tensor.kind() == Kind::Float && tensor.device() == Device::Cpu,
        "the tensor must be contiguous f32 in host memory"
    );
    // SAFETY: a contiguous f32 tensor on the CPU owns `numel` initialised f32 values starting at
    // `data_ptr`, and keeps them as long as it is borrowed. The evaluation never writes to a
    // tensor, or to another handle of its memory, while a slice of it is in use.
    unsafe { std::slice::from_raw_parts(tensor.data_ptr() as *const f32, tensor.numel()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_on_the_grid_do_not_depend_on_the_order_of_summation() {
        curricle_torch::seed(1).unwrap();
        let space = Space::new(&Tensor::randn([40, 259], (Kind::Float, Device::Cpu))).unwrap();
        let rows = space.rows();
        for i in 0..40 {
            for j in 0..40 {
                let (a, b) = (rows.row(i), rows.row(j));
                let backwards: f64 = a.iter().zip(b).rev().map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
                assert_eq!(dot(a, b), backwards);
            }
        }
    }

    #[test]
    fn f32_products_stay_within_half_the_margin() {
        curricle_torch::seed(2).unwrap();
        let space = Space::new(&Tensor::randn([64, 512], (Kind::Float, Device::Cpu))).unwrap();
        let fast = space.points.matmul(&space.points.tr());
        let rows = space.rows();
        for (at, &s) in as_slice(&fast).iter().enumerate() {
            let exact = dot(rows.row(at as u32 / 64), rows.row(at as u32 % 64));
            assert!((f64::from(s) - exact).abs() < f64::from(margin(512)) / 2.0);
        }
    }

    #[test]
    fn the_grid_is_finer_than_f32_for_large_coordinates() {
        for value in [0.7_f32, -0.3, 0.130_001, 1.0] {
            assert_eq!(round_to_grid(f64::from(value)), value);
        }
        assert!((round_to_grid(0.01) - 0.01).abs() <= 0.5 / GRID);
    }

    #[test]
    fn rows_without_a_direction_are_named_in_the_error() {
        let mut x = Tensor::ones([4, 3], (Kind::Float, Device::Cpu));
        let _ = x.get(2).zero_();
        assert!(Space::new(&x).err().unwrap().to_string().starts_with("row 2 of the embeddings is zero"));
        x = Tensor::from_slice(&[1.0_f32, 0.0, f32::NAN, 0.0]).view([2, 2]);
        assert!(Space::new(&x).err().unwrap().to_string().starts_with("row 1 of the embeddings contains NaN"));
    }

    #[test]
    fn embeddings_without_unit_norm_are_rescaled_and_reported() {
        let unit = Tensor::from_slice(&[0.6_f32, 0.8, 1.0, 0.0]).view([2, 2]);
        assert!(!Space::new(&unit).unwrap().rescaled);
        let half = unit.to_kind(Kind::Half);
        assert!(!Space::new(&half).unwrap().rescaled);
        let long = Space::new(&(&unit * 3.0)).unwrap();
        assert!(long.rescaled);
        assert!((long.rows().row(0)[1] - 0.8).abs() < 1e-6);
    }
}
