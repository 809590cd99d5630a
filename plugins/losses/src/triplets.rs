//! Means over the triplets of a batch.

use crate::masks::Masks;
use crate::means::or_one;
use tch::Tensor;

/// What the triplets (anchor a, positive p, negative n) of a batch count: `ap[a,p] · an[a,n]`,
/// which is 0 where p is no positive or n no negative of a.
#[derive(Debug)]
pub struct Triplets {
    /// `w_a w_p` on positive pairs, 0 elsewhere `[B, B]`.
    pub ap: Tensor,
    /// `w_n` on negative pairs, 0 elsewhere `[B, B]`.
    pub an: Tensor,
}

impl Triplets {
    /// All triplets that can be formed of the pairs.
    pub fn of(pairs: &Masks, weights: Option<&Tensor>, kind: tch::Kind) -> Self {
        let ap = pairs.positive.to_kind(kind);
        let an = pairs.negative.to_kind(kind);
        match weights {
            Some(w) => Self { ap: ap * w.unsqueeze(1) * w, an: an * w },
            None => Self { ap, an },
        }
    }

    /// `Σ_n an[a,n] t[a,p,n]` for every pair (a, p), times `ap[a,p]`.
    fn over_negatives(&self, terms: &Tensor) -> Tensor {
        terms.bmm(&self.an.unsqueeze(2)).squeeze_dim(2) * &self.ap
    }

    /// `Σ_p ap[a,p] t[a,p,n]` for every pair (a, n), times `an[a,n]`.
    fn over_positives(&self, terms: &Tensor) -> Tensor {
        self.ap.unsqueeze(1).bmm(terms).squeeze_dim(1) * &self.an
    }

    /// Sum of all triplets' weights.
    pub fn total(&self) -> Tensor {
        self.ap.sum_dim_intlist(1, false, None).dot(&self.an.sum_dim_intlist(1, false, None))
    }

    /// Weighted sum of one number per triplet `[B, B, B]`.
    pub fn sum(&self, terms: &Tensor) -> Tensor {
        self.over_negatives(terms).sum(None)
    }

    /// The weighted mean of a function of `d_ap - d_an`, and its derivative by the distances
    /// `[B, B]`. `total` is the weight of the triplets the mean goes over, `slopes` the
    /// function's derivative in each triplet `[B, B, B]`.
    pub fn mean(&self, values: &Tensor, slopes: &Tensor, total: &Tensor) -> (Tensor, Tensor) {
        let total = or_one(total);
        // A pair is positive or negative, so the two parts never meet in one element.
        let slope = (self.over_negatives(slopes) - self.over_positives(slopes)) / &total;
        (self.sum(values) / total, slope)
    }
}

/// `d_ap - d_an + margin` for all triplets `[B, B, B]`.
pub fn gaps(distances: &Tensor, margin: f64) -> Tensor {
    (distances + margin).unsqueeze(2) - distances.unsqueeze(1)
}
