//! Leave-one-out linear discriminant analysis.
//!
//! Every class is a normal distribution with its own mean and a covariance Σ that all classes share. The
//! score of sample x for class c is `-½ ((x - m_c)ᵀ A (x - m_c) - tr(AΣ)/n_c)` with `A = (Σ + γ σ̄ I)⁻¹`, where σ̄
//! is the mean eigenvalue of Σ and γ the shrinkage. The second term removes the bias of a mean of only n_c
//! samples. Each sample is scored as if it had not been seen: without it the mean of its class is
//! `m - (x - m)/(n - 1)`, and Σ changes by a matrix of rank one, so that the Sherman-Morrison formula gives
//! the scores without fitting again. A label is thus judged by the other samples alone.
//!
//! In the basis of Σ's eigenvectors A is diagonal for every γ, so one decomposition serves all of them.

use tch::{Device, Kind, Tensor};

/// Samples whose deviations are in memory in f64 at a time.
const TILE: i64 = 4096;
/// The least value of what leaving out a sample leaves of its leverage; rounding may give less.
const LEAST_LEFT: f64 = 1e-6;

/// The fitted classes, on the device of the features.
#[derive(Debug)]
pub(super) struct Discriminant {
    /// Samples `[N, D]` and class means `[C, D]`, f32, in the basis of Σ's eigenvectors.
    points: Tensor,
    means: Tensor,
    /// Eigenvalues of Σ `[D]`.
    variances: Tensor,
    labels: Tensor,
    /// Samples per class `[C]`.
    sizes: Tensor,
    /// Degrees of freedom of Σ.
    freedom: f64,
}

impl Discriminant {
    /// Fits the classes to features `[N, D]`, which are scaled to unit norm. At least one class must have two
    /// samples.
    pub(super) fn fit(features: &Tensor, labels: &[i64], classes: usize) -> curricle_sdk::Result<Self> {
        let _no_grad = tch::no_grad_guard();
        let device = features.device();
        let x = super::unit(&features.to_kind(Kind::Float));
        // Only distances count; features around 0 have smaller rounding errors.
        let x = &x - x.mean_dim([0i64].as_slice(), true, Kind::Float);
        let (count, size) = (x.size()[0], x.size()[1]);
        let labels = Tensor::from_slice(labels).to_device(device);
        let mut sizes = Tensor::zeros([classes as i64], (Kind::Float, device));
        let mut means = Tensor::zeros([classes as i64, size], (Kind::Float, device));
        // Unlike `index_add_` this adds in a fixed order on every device.
        let _ = sizes.f_index_put_(&[Some(&labels)], &Tensor::ones([count], (Kind::Float, device)), true)?;
        let _ = means.f_index_put_(&[Some(&labels)], &x, true)?;
        let means = means / sizes.clamp_min(1.0).unsqueeze(1);
        let mut scatter = Tensor::zeros([size, size], (Kind::Double, device));
        for start in (0..count).step_by(TILE as usize) {
            let rows = |t: &Tensor| t.narrow(0, start, TILE.min(count - start));
            let deviation = (rows(&x) - means.index_select(0, &rows(&labels))).to_kind(Kind::Double);
            scatter += deviation.tr().f_matmul(&deviation)?;
        }
        let filled = sizes.gt(0.0).sum(Kind::Int64).int64_value(&[]);
        let freedom = (count - filled).max(1) as f64;
        let (variances, vectors) = (scatter / freedom).f_linalg_eigh("L")?;
        let (variances, vectors) = (variances.clamp_min(0.0).to_kind(Kind::Float), vectors.to_kind(Kind::Float));
        let (points, means) = (x.f_matmul(&vectors)?, means.f_matmul(&vectors)?);
        Ok(Self { points, means, variances, labels, sizes, freedom })
    }

    /// The labels of these samples.
    pub(super) fn labels(&self, samples: &Tensor) -> Tensor {
        self.labels.index_select(0, samples)
    }

    /// The device of all tensors.
    pub(super) fn device(&self) -> Device {
        self.points.device()
    }

    /// Leave-one-out scores `[B, C]` in f64 of these samples for all classes, at shrinkage γ. Classes without
    /// samples score -∞, and so does a class for its only sample, without which it is empty.
    pub(super) fn scores(&self, samples: &Tensor, shrinkage: f64) -> curricle_sdk::Result<Tensor> {
        let _no_grad = tch::no_grad_guard();
        let sum = |t: &Tensor| t.sum_dim_intlist([1i64].as_slice(), true, Kind::Float);
        // Without any spread within classes, every scale is as good.
        let ridge = shrinkage * self.variances.mean(Kind::Float).clamp_min(1e-12);
        let scale = (&self.variances + ridge).reciprocal();
        let trace = (&self.variances * &scale).sum(Kind::Float);
        let (x, own) = (self.points.index_select(0, samples), self.labels(samples));
        let scaled = &x * &scale;
        let lengths = sum(&(&self.means * &self.means * &scale)).tr();
        let squares = sum(&(&scaled * &x)) - 2f64 * scaled.f_matmul(&self.means.tr())? + lengths;

        // Without the sample, Σ loses `left · d dᵀ` with d = x - m.
        let n = self.sizes.index_select(0, &own).unsqueeze(1);
        let others = (&n - 1f64).clamp_min(1.0);
        let growth = &n / &others;
        let left = &growth / self.freedom;
        let d = &x - self.means.index_select(0, &own);
        let scaled = &d * &scale;
        let leverage = sum(&(&scaled * &d));
        let gain = &left / (1f64 - &left * &leverage).clamp_min(LEAST_LEFT);
        let along = sum(&(&scaled * &x)) - scaled.f_matmul(&self.means.tr())?;
        let squares = squares + &gain * along.square() - (&trace / self.sizes.clamp_min(1.0)).unsqueeze(0);
        let to_own = growth.square() * (&leverage + &gain * leverage.square()) - &trace / &others;
        let to_own = to_own.masked_fill(&n.le(1.0), f64::INFINITY);

        let squares = squares.masked_fill(&self.sizes.eq(0.0).unsqueeze(0), f64::INFINITY);
        Ok((squares.f_scatter(1, &own.unsqueeze(1), &to_own)? * -0.5).to_kind(Kind::Double))
    }
}
