//! Triplets of a batch and means over them.

use curricle_sdk::PairMasks;
use curricle_sdk::gradients::not_zero;
use tch::{Device, Kind, Tensor};

/// `[…]` indices below `size` as a boolean mask `[…, size]` with one true element each.
pub(crate) fn one_hot(indices: &Tensor, size: i64) -> Tensor {
    let columns = Tensor::arange(size, (indices.kind(), indices.device()));
    indices.unsqueeze(-1).eq_tensor(&columns)
}

/// The triplets (anchor a, positive p, negative n) of a batch with their weights `w_a w_p w_n`.
///
/// In a batch of P classes with K samples each, an anchor has only K-1 positives. They are listed in slots, so a
/// value per triplet is a tensor `[B, slots, B]` rather than `[B, B, B]`.
#[derive(Debug)]
pub(crate) struct Triplets {
    /// The positive in each slot, as a column `[B, slots]`, i64.
    slots: Tensor,
    /// `w_a w_p`, 0 for an empty slot `[B, slots]`.
    pub ap: Tensor,
    /// `w_n` on negative pairs, 0 elsewhere `[B, B]`.
    pub an: Tensor,
}

impl Triplets {
    /// All triplets of the given pairs.
    pub(crate) fn of(pairs: &PairMasks, weights: Option<&Tensor>, kind: Kind) -> Self {
        let pairs = pairs.to_kind(kind);
        let (ap, slots) = pairs.positive.topk(slots_needed(&pairs.positive), 1, true, true);
        match weights {
            Some(w) => {
                let w_p = w.expand_as(&pairs.positive).gather(1, &slots, false);
                Self { slots, ap: ap * w.unsqueeze(1) * w_p, an: pairs.negative * w }
            }
            None => Self { slots, ap, an: pairs.negative },
        }
    }

    /// Selects the values of the slots `[B, slots]` from the values of all pairs `[B, B]`.
    pub(crate) fn of_slots(&self, pairs: &Tensor) -> Tensor {
        pairs.gather(1, &self.slots, false)
    }

    /// `d_ap - d_an + margin` `[B, slots, B]`.
    pub(crate) fn gaps(&self, distances: &Tensor, margin: f64) -> Tensor {
        (self.of_slots(distances) + margin).unsqueeze(2) - distances.unsqueeze(1)
    }

    /// `ap[a,p] Σ_n an[a,n] t[a,p,n]` `[B, slots]`.
    fn over_negatives(&self, terms: &Tensor) -> Tensor {
        (terms * self.an.unsqueeze(1)).sum_dim_intlist(2, false, None) * &self.ap
    }

    /// `an[a,n] Σ_p ap[a,p] t[a,p,n]` `[B, B]`.
    fn over_positives(&self, terms: &Tensor) -> Tensor {
        (terms * self.ap.unsqueeze(2)).sum_dim_intlist(1, false, None) * &self.an
    }

    /// Sum of the weights of all triplets.
    pub(crate) fn total(&self) -> Tensor {
        self.ap.sum_dim_intlist(1, false, None).dot(&self.an.sum_dim_intlist(1, false, None))
    }

    /// Weighted sum of one value per triplet.
    pub(crate) fn sum(&self, terms: &Tensor) -> Tensor {
        self.over_negatives(terms).sum(None)
    }

    /// The weighted mean of a function of `d_ap - d_an`, and its gradient with respect to the distances `[B, B]`.
    /// `grads` is the function's derivative for each triplet, `total` the weight of the triplets in the mean.
    pub(crate) fn mean(&self, values: &Tensor, grads: &Tensor, total: &Tensor) -> (Tensor, Tensor) {
        let total = not_zero(total);
        let grad = self.grad(&self.over_negatives(grads), &self.over_positives(grads));
        (self.sum(values) / &total, grad / total)
    }

    /// The gradient with respect to all distances `[B, B]`: `pulled` `[B, slots]` for those of the slots, minus
    /// `pushed` `[B, B]` for those of the negatives.
    pub(crate) fn grad(&self, pulled: &Tensor, pushed: &Tensor) -> Tensor {
        // A pair is positive or negative, and empty slots add 0: no element gets two terms.
        (-pushed).scatter_add_(1, &self.slots, pulled)
    }
}

/// The largest number of positives of an anchor. Reading it is free on the CPU; on another device it would wait for
/// the device, for which empty slots are cheaper.
fn slots_needed(positive: &Tensor) -> i64 {
    match positive.device() {
        Device::Cpu => positive.sum_dim_intlist(1, false, None).max().int64_value(&[]).max(1),
        _ => positive.size()[1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_the_positives_and_nothing_else() {
        let labels = Tensor::from_slice(&[0i64, 1, 0, 1, 1, 2]);
        let same = labels.unsqueeze(1).eq_tensor(&labels);
        let positive = same.logical_and(&Tensor::eye(6, (Kind::Bool, Device::Cpu)).logical_not());
        let triplets = Triplets::of(&PairMasks { positive, negative: same.logical_not() }, None, Kind::Double);
        assert_eq!(triplets.ap.size(), [6, 2]);
        let columns = Tensor::from_slice(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]).expand([6, 6], false);
        let held = (triplets.of_slots(&columns) * &triplets.ap).sum_dim_intlist(1, false, None);
        assert_eq!(Vec::<f64>::try_from(held).unwrap(), [4.0, 24.0, 1.0, 18.0, 10.0, 0.0]);
        // 2 anchors × 1 positive × 4 negatives, 3 × 2 × 3, and none for the class of one.
        assert_eq!(triplets.total().double_value(&[]), 26.0);
    }
}
