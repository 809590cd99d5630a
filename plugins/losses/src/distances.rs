//! Euclidean distances of all pairs, with derivatives that stay finite.

use tch::{Kind, Tensor};

/// `|x_i - x_j|²` for all pairs `[B, B]`, never negative.
///
/// From one matrix product, `|x_i|² + |x_j|² - 2 <x_i, x_j>`. For unit vectors this is `2 - 2S`,
/// but rounding of the norms does not enter, and the derivative is that of a distance.
pub fn squared_distances(points: &Tensor) -> Tensor {
    let products = points.mm(&points.tr());
    let norms = products.diagonal(0, 0, 1);
    (norms.unsqueeze(1) + norms - products * 2.0).clamp_min_(0.0)
}

/// Distances of all pairs, and their derivative by the squared ones.
#[derive(Debug)]
pub struct Distances {
    /// `D` `[B, B]`.
    pub plain: Tensor,
    /// `1 / D`, but 0 where `D = 0`.
    inverse: Tensor,
}

impl Distances {
    /// The distances of all pairs.
    ///
    /// A square below four times the precision is rounding error: such a pair counts as one
    /// point, with distance 0 and, as the derivative of the root has a pole there, derivative 0.
    pub fn of(points: &Tensor) -> Self {
        let squared = squared_distances(points);
        let floor = 4.0 * if points.kind() == Kind::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
        // 1/√∞ = 0.
        let inverse = squared.threshold(floor, f64::INFINITY).rsqrt_();
        Self { plain: squared * &inverse, inverse }
    }

    /// `∂L/∂D²` from `∂L/∂D`.
    pub fn slope_of_squared(&self, slope: &Tensor) -> Tensor {
        slope * &self.inverse * 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_equal_points_has_distance_and_slope_zero() {
        let points = Tensor::from_slice2(&[[0.6f32, 0.8], [0.6, 0.8], [-0.6, -0.8]]);
        let distances = Distances::of(&points);
        let plain = Vec::<f32>::try_from(distances.plain.flatten(0, -1)).unwrap();
        assert_eq!(plain[..2], [0.0, 0.0]);
        assert!((plain[2] - 2.0).abs() < 1e-6);
        let slope = Vec::<f32>::try_from(
            distances.slope_of_squared(&points.ones_like().mm(&points.ones_like().tr())).flatten(0, -1),
        )
        .unwrap();
        assert_eq!(slope[..2], [0.0, 0.0]);
        assert!((slope[2] - 0.5).abs() < 1e-6);
    }
}
