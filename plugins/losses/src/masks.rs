//! Which pairs of a batch are positive and which negative.

use curricle_sdk::Batch;
use tch::{Kind, Tensor};

/// Boolean masks `[B, B]`, row = anchor.
#[derive(Debug)]
pub struct Masks {
    /// Same class, different training sample.
    pub positive: Tensor,
    /// Different class.
    pub negative: Tensor,
}

impl Masks {
    /// The pairs of a batch. A sample that stands in it twice is neither to itself.
    pub fn of(batch: &Batch) -> Self {
        let same_class = batch.labels.unsqueeze(1).eq_tensor(batch.labels);
        let other_sample = batch.ids.unsqueeze(1).ne_tensor(batch.ids);
        Self { positive: same_class.logical_and(&other_sample), negative: same_class.logical_not() }
    }

    /// The masks as 0/1 numbers, positives first.
    pub fn to_kind(&self, kind: Kind) -> (Tensor, Tensor) {
        (self.positive.to_kind(kind), self.negative.to_kind(kind))
    }
}

/// `[…]` indices below `size` as a boolean mask `[…, size]` with one true element each.
pub fn one_hot(indices: &Tensor, size: i64) -> Tensor {
    let columns = Tensor::arange(size, (indices.kind(), indices.device()));
    indices.unsqueeze(-1).eq_tensor(&columns)
}
