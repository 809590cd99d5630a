//! Sums and means that losses share, most of them with their derivative.

use tch::Tensor;

/// The mean of `terms` weighted by `weights`, 0 if all weights are 0. Differentiable.
pub fn weighted_mean(terms: &Tensor, weights: &Tensor) -> Tensor {
    (terms * weights).sum(None) / not_zero(&weights.sum(None))
}

/// `log(1 + Σ e^z)` along `dim`, which is kept with size 1, and its derivative by `z`.
///
/// Entries of -∞ add nothing; without any other entries the result is 0. Large `z` do not overflow and small sums
/// do not vanish: `log(1 + Σ e^z) = t + log1p(Σ e^(z-t) + expm1(-t))` with `t = max(0, max z)`. Terms below e^-83
/// times the larger of 1 and the largest term are dropped.
pub fn log_one_plus_sum_exp(z: &Tensor, dim: i64) -> (Tensor, Tensor) {
    let max = z.amax(dim, true).clamp_min(0.0);
    // Exponentials that underflow are many times slower, and most entries are -∞.
    let mut softmax = (z - &max).clamp_min_(-85.0).exp_().threshold_(1e-36, 0.0);
    let rest = softmax.sum_dim_intlist(dim, true, None) + (-&max).expm1_();
    let value = rest.log1p() + max;
    let _ = softmax.g_div_(&(rest + 1.0));
    (value, softmax)
}

/// The weighted mean of the elements of `gap` that are positive and in the 0/1 `mask`, and its derivative by
/// `gap`. Both are 0 if there are none.
pub fn mean_of_active(gap: &Tensor, mask: &Tensor, weights: Option<&Tensor>) -> (Tensor, Tensor) {
    let hinge = (gap * mask).relu_();
    // 1 where active: faster than a comparison.
    let active = hinge.sign();
    let active = match weights {
        Some(weights) => active * weights,
        None => active,
    };
    let grad = &active / not_zero(&active.sum(None));
    ((hinge * &grad).sum(None), grad)
}

/// `total`, with the smallest normal f32 in place of 0: a safe denominator for sums that are 0 themselves.
pub fn not_zero(total: &Tensor) -> Tensor {
    total.clamp_min(f64::from(f32::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    #[test]
    fn the_log_sum_is_exact_for_no_terms_tiny_terms_and_huge_terms() {
        let inf = f64::INFINITY;
        let z = Tensor::from_slice2(&[[-inf, -inf], [-40.0, -inf], [1000.0, 1000.0], [0.0, 1.0]]);
        let (value, softmax) = log_one_plus_sum_exp(&z, 1);
        let value = Vec::<f64>::try_from(value.squeeze()).unwrap();
        assert_eq!(value[0], 0.0);
        assert!((value[1] / (-40.0f64).exp() - 1.0).abs() < 1e-12);
        assert_eq!(value[2], 1000.0 + 2.0f64.ln());
        assert!((value[3] - (1.0 + 1.0 + 1.0f64.exp()).ln()).abs() < 1e-15);
        let rows = Vec::<f64>::try_from(softmax.sum_dim_intlist(1, false, None)).unwrap();
        assert_eq!(rows[0], 0.0);
        assert!((rows[2] - 1.0).abs() < 1e-15);
    }

    #[test]
    fn mean_of_active_ignores_masked_and_non_positive_elements() {
        let gap = Tensor::from_slice(&[3.0, -1.0, 5.0, 0.0, 7.0]);
        let mask = Tensor::from_slice(&[1.0, 1.0, 1.0, 1.0, 0.0]);
        let weights = Tensor::from_slice(&[1.0, 1.0, 3.0, 1.0, 1.0]);
        assert_eq!(mean_of_active(&gap, &mask, None).0.double_value(&[]), 4.0);
        assert_eq!(mean_of_active(&gap, &mask, Some(&weights)).0.double_value(&[]), 4.5);
        let none = mask.zeros_like();
        let (value, grad) = mean_of_active(&gap, &none, None);
        assert_eq!((value.double_value(&[]), grad.abs().sum(Kind::Double).double_value(&[])), (0.0, 0.0));
    }

    #[test]
    fn a_weighted_mean_without_weights_is_zero() {
        let terms = Tensor::from_slice(&[2.0, 4.0]);
        assert_eq!(weighted_mean(&terms, &Tensor::from_slice(&[1.0, 3.0])).double_value(&[]), 3.5);
        assert_eq!(weighted_mean(&terms, &terms.zeros_like()).double_value(&[]), 0.0);
    }
}
