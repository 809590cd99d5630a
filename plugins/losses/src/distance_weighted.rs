//! Distance-weighted sampling of negatives (Wu et al., ICCV 2017).

use tch::Tensor;

/// Closer negatives are sampled as if at this distance: the inverse density explodes there.
const CUTOFF: f64 = 0.5;
/// Negatives from this distance on are not sampled: most of them have no loss.
const NONZERO_LOSS_CUTOFF: f64 = 1.4;

/// One negative per positive pair.
pub(crate) struct SampledNegatives {
    /// Its column, in the shape of the uniform numbers, i64.
    pub columns: Tensor,
    /// Whether the row has any negative to sample `[B, 1]`.
    pub exists: Tensor,
}

/// Samples negatives for each anchor, with replacement, with `P(n|a) ∝ 1/q(max(D_an, 0.5))` among the negatives with
/// `D_an < 1.4`, by inverting the cumulative distribution at `uniform` `[B, k]`, numbers from 0 to 1.
///
/// `log q(D) = (d-2) log D + (d-3)/2 log(1 - D²/4)` is the density of distances on the unit sphere.
pub(crate) fn sample_negatives(
    distances: &Tensor,
    negative: &Tensor,
    uniform: &Tensor,
    dimensions: i64,
) -> SampledNegatives {
    let d = dimensions as f64;
    let excluded = distances.ge(NONZERO_LOSS_CUTOFF).logical_or_(&negative.logical_not());
    let clipped = distances.clamp(CUTOFF, NONZERO_LOSS_CUTOFF);
    let log_inverse_density =
        clipped.log() * (2.0 - d) + ((&clipped * &clipped) * -0.25 + 1.0).log_() * ((3.0 - d) / 2.0);
    let log_weights = log_inverse_density.masked_fill(&excluded, f64::NEG_INFINITY);
    // Each row is scaled by its own maximum: with that of the batch, whole rows underflow. An empty row has the
    // maximum -∞, and -∞ minus -∞ would be NaN.
    let max = log_weights.amax(1, true).clamp_min(f64::from(f32::MIN));
    let cumulative = (log_weights - max).exp_().cumsum(1, None);
    let total = cumulative.narrow(1, distances.size()[1] - 1, 1);
    // Strictly below the total, so that a column with weight is always hit.
    let below = total.nextafter(&total.zeros_like());
    let points = (uniform * &total).minimum(&below);
    let columns =
        points.searchsorted(&cumulative, false, true, "right", None::<&Tensor>).clamp_max(distances.size()[1] - 1);
    SampledNegatives { columns, exists: total.gt(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    /// Six rows: an anchor of class 0 and negatives at these distances from it.
    fn distances(of_anchor: [f64; 6]) -> (Tensor, Tensor) {
        let row = Tensor::from_slice(&of_anchor).unsqueeze(0);
        let negative = Tensor::from_slice(&[false, true, true, true, true, true]).unsqueeze(0);
        (row.repeat([6, 1]), negative.repeat([6, 1]))
    }

    fn uniform(like: &Tensor) -> Tensor {
        Tensor::rand(like.size(), (like.kind(), Device::Cpu))
    }

    #[test]
    fn negatives_are_sampled_by_the_inverse_density_of_their_distance() {
        let d: f64 = 8.0;
        let of_anchor: [f64; 6] = [0.0, 0.3, 0.5, 0.9, 1.3, 1.45];
        let (distances, negative) = distances(of_anchor);
        let weight = |distance: f64| {
            let distance = distance.max(0.5);
            distance.powf(2.0 - d) * (1.0 - distance * distance / 4.0).powf((3.0 - d) / 2.0)
        };
        let mut expected: Vec<f64> = of_anchor.iter().map(|&distance| weight(distance)).collect();
        (expected[0], expected[5]) = (0.0, 0.0);
        let total: f64 = expected.iter().sum();

        let rounds = 500;
        let mut hits = Tensor::zeros([6], (Kind::Double, Device::Cpu));
        for _ in 0..rounds {
            let sampled = sample_negatives(&distances, &negative, &uniform(&distances), d as i64);
            hits += sampled.columns.flatten(0, -1).bincount(None::<&Tensor>, 6);
        }
        let hits = Vec::<f64>::try_from(hits).unwrap();
        let draws = f64::from(rounds * 36);
        for (hit, expected) in hits.iter().zip(expected) {
            let share = expected / total;
            let deviation = (draws * share * (1.0 - share)).sqrt();
            assert!((hit - draws * share).abs() <= 5.0 * deviation, "{hits:?}, expected {}", draws * share);
        }
    }

    #[test]
    fn a_row_of_far_negatives_does_not_underflow_next_to_a_row_of_near_ones() {
        let (near, negative) = distances([0.0, 0.5, 0.6, 0.7, 0.8, 0.9]);
        let (far, _) = distances([0.0, 1.39, 1.39, 1.5, 1.5, 1.5]);
        let both = Tensor::cat(&[near.narrow(0, 0, 3), far.narrow(0, 0, 3)], 0).to_kind(Kind::Float);
        let sampled = sample_negatives(&both, &negative, &uniform(&both), 512);
        assert_eq!(sampled.exists.sum(Kind::Int64).int64_value(&[]), 6);
        let of_far = Vec::<i64>::try_from(sampled.columns.narrow(0, 3, 3).flatten(0, -1)).unwrap();
        assert!(of_far.iter().all(|n| [1, 2].contains(n)), "{of_far:?}");
    }

    #[test]
    fn a_row_of_negatives_beyond_the_cutoff_has_none_to_sample() {
        let (far, negative) = distances([0.0, 1.4, 1.5, 1.6, 1.7, 1.8]);
        let sampled = sample_negatives(&far, &negative, &uniform(&far), 8);
        assert_eq!(sampled.exists.sum(Kind::Int64).int64_value(&[]), 0);
    }
}
