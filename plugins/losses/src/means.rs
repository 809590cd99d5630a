//! Sums and means that losses share, each with its derivative.

use tch::Tensor;

/// `log(1 + Σ e^z)` along `dim`, kept as a dimension of size 1, and its derivative by `z`.
///
/// Entries of -∞ do not take part; where there are no others the result is 0. Neither large `z`
/// overflow nor small sums vanish: `log(1 + Σ e^z) = t + log1p(Σ e^(z-t) + expm1(-t))` with
/// `t = max(0, max z)`. Terms below e^-83 of the larger of 1 and the largest term are dropped.
pub fn log_one_plus_sum_exp(z: &Tensor, dim: i64) -> (Tensor, Tensor) {
    let top = z.amax(dim, true).clamp_min(0.0);
    // Exponentials that underflow take many times as long as others, and most are of -∞.
    let mut share = (z - &top).clamp_min_(-85.0).exp_().threshold_(1e-36, 0.0);
    let rest = share.sum_dim_intlist(dim, true, None) + (-&top).expm1_();
    let value = rest.log1p() + top;
    let _ = share.g_div_(&(rest + 1.0));
    (value, share)
}

/// The weighted mean of the elements of `gap` that are above 0 and in the 0/1 `mask`, and its
/// derivative by `gap`. Both are 0 if there are none.
pub fn mean_of_active(gap: &Tensor, mask: &Tensor, weights: Option<&Tensor>) -> (Tensor, Tensor) {
    let hinge = (gap * mask).relu_();
    // The sign of what is never negative: 1 where active, and faster than a comparison.
    let active = hinge.sign();
    let active = match weights {
        Some(weights) => active * weights,
        None => active,
    };
    let share = &active / not_zero(&active.sum(None));
    ((hinge * &share).sum(None), share)
}

/// The number itself, but a tiny one instead of 0: for the division of a sum that is 0 anyway.
pub fn not_zero(total: &Tensor) -> Tensor {
    total.clamp_min(f64::from(f32::MIN_POSITIVE))
}

/// `w_i w_j` for all pairs `[B, B]`.
pub fn pair_weights(weights: &Tensor) -> Tensor {
    weights.unsqueeze(1) * weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    #[test]
    fn log_sum_is_right_for_nothing_for_tiny_and_for_huge_terms() {
        let inf = f64::INFINITY;
        let z = Tensor::from_slice2(&[[-inf, -inf], [-40.0, -inf], [1000.0, 1000.0], [0.0, 1.0]]);
        let (value, share) = log_one_plus_sum_exp(&z, 1);
        let value = Vec::<f64>::try_from(value.squeeze()).unwrap();
        assert_eq!(value[0], 0.0);
        assert!((value[1] / (-40.0f64).exp() - 1.0).abs() < 1e-12);
        assert_eq!(value[2], 1000.0 + 2.0f64.ln());
        assert!((value[3] - (1.0 + 1.0 + 1.0f64.exp()).ln()).abs() < 1e-15);
        let rows = Vec::<f64>::try_from(share.sum_dim_intlist(1, false, None)).unwrap();
        assert_eq!(rows[0], 0.0);
        assert!((rows[2] - 1.0).abs() < 1e-15);
    }

    #[test]
    fn mean_of_active_ignores_what_is_masked_or_not_above_zero() {
        let gap = Tensor::from_slice(&[3.0, -1.0, 5.0, 0.0, 7.0]);
        let mask = Tensor::from_slice(&[1.0, 1.0, 1.0, 1.0, 0.0]);
        let weights = Tensor::from_slice(&[1.0, 1.0, 3.0, 1.0, 1.0]);
        assert_eq!(mean_of_active(&gap, &mask, None).0.double_value(&[]), 4.0);
        assert_eq!(mean_of_active(&gap, &mask, Some(&weights)).0.double_value(&[]), 4.5);
        let none = mask.zeros_like();
        let (value, share) = mean_of_active(&gap, &none, None);
        assert_eq!((value.double_value(&[]), share.abs().sum(Kind::Double).double_value(&[])), (0.0, 0.0));
    }
}
