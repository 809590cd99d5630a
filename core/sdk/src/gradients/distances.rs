//! Euclidean distances of all pairs, with gradients that stay finite.

use crate::mm;
use tch::{Kind, Tensor};

/// `|x_i - x_j|²` for all pairs `[B, B]`, never negative.
///
/// Computed with one matrix product, as `|x_i|² + |x_j|² - 2 <x_i, x_j>`. For unit vectors this is `2 - 2S`, but
/// the rounding of the norms cancels, and the gradient is that of a distance.
pub fn squared_distances(points: &Tensor) -> Tensor {
    let products = mm(points, &points.tr());
    let norms = products.diagonal(0, 0, 1);
    (norms.unsqueeze(1) + norms - products * 2.0).clamp_min_(0.0)
}

/// `∂L/∂x` `[B, D]` from `grad = ∂L/∂D²` `[B, B]`, where `D²_ij = |x_i - x_j|²`.
///
/// `∂L/∂x_i = 2 Σ_j (grad_ij + grad_ji)(x_i - x_j)`, a graph Laplacian times `x`.
pub fn gradient_of_squared_distances(points: &Tensor, grad: &Tensor) -> Tensor {
    let laplacian = (grad + grad.tr()) * -2.0;
    let degrees = laplacian.sum_dim_intlist(1, false, None);
    let _ = laplacian.diagonal(0, 0, 1).g_sub_(&degrees);
    mm(&laplacian, points)
}

/// Distances of all pairs, and what their derivative needs.
#[derive(Debug)]
pub struct Distances {
    /// `D` `[B, B]`, or `[B, R]`.
    pub values: Tensor,
    /// `1 / D`, but 0 where `D = 0`.
    inverse: Tensor,
}

impl Distances {
    /// The distances of all pairs.
    ///
    /// A square below four times the machine epsilon is rounding error. The pair then counts as one point, with
    /// distance 0 and derivative 0: the derivative of the square root has a pole there.
    pub fn of(points: &Tensor) -> Self {
        Self::of_squared(squared_distances(points))
    }

    /// The distances of `points` `[B, D]` and `others` `[R, D]`, `[B, R]`.
    pub fn between(points: &Tensor, others: &Tensor) -> Self {
        let norms = |x: &Tensor| x.square().sum_dim_intlist(1, false, None);
        let squared = norms(points).unsqueeze(1) + norms(others) - mm(points, &others.tr()) * 2.0;
        Self::of_squared(squared.clamp_min(0.0))
    }

    fn of_squared(squared: Tensor) -> Self {
        let floor = 4.0 * if squared.kind() == Kind::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
        // 1/√∞ = 0.
        let inverse = squared.threshold(floor, f64::INFINITY).rsqrt_();
        Self { values: squared * &inverse, inverse }
    }

    /// `∂L/∂D²` from `grad = ∂L/∂D`.
    pub fn grad_of_squared(&self, grad: &Tensor) -> Tensor {
        grad * &self.inverse * 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_equal_points_has_distance_and_gradient_zero() {
        let points = Tensor::from_slice2(&[[0.6f32, 0.8], [0.6, 0.8], [-0.6, -0.8]]);
        let distances = Distances::of(&points);
        let values = Vec::<f32>::try_from(distances.values.flatten(0, -1)).unwrap();
        assert_eq!(values[..2], [0.0, 0.0]);
        assert!((values[2] - 2.0).abs() < 1e-6);
        let ones = Tensor::ones([3, 3], (Kind::Float, tch::Device::Cpu));
        let grad = Vec::<f32>::try_from(distances.grad_of_squared(&ones).flatten(0, -1)).unwrap();
        assert_eq!(grad[..2], [0.0, 0.0]);
        // ∂D/∂D² = 1/(2D) at D = 2.
        assert!((grad[2] - 0.25).abs() < 1e-6);
    }
}
