//! Distances and triplets in plain tensor operations, for the `reference` of each loss.

use curricle_sdk::{Batch, PairMasks};
use tch::Tensor;

/// Euclidean distances of all pairs `[B, B]`; the gradient at distance 0 is 0.
pub(crate) fn distances(batch: &Batch) -> Tensor {
    distances_between(batch.embeddings, batch.embeddings)
}

/// Euclidean distances of `points` `[B, D]` and `others` `[R, D]`, `[B, R]`; the gradient at distance 0 is 0.
pub(crate) fn distances_between(points: &Tensor, others: &Tensor) -> Tensor {
    // Mode 2 computes every difference, which is slow but exact; the faster one cancels.
    Tensor::cdist(points, others, 2.0, 2)
}

/// All triplets (anchor, positive, negative) as a boolean mask `[B, B, B]`.
pub(crate) fn all_triplets(pairs: &PairMasks) -> Tensor {
    pairs.positive.unsqueeze(2).logical_and(&pairs.negative.unsqueeze(1))
}

/// `w_a w_p w_n` for all triplets `[B, B, B]`.
pub(crate) fn triplet_weights(batch: &Batch) -> Tensor {
    batch.pair_weights().unsqueeze(2) * batch.weights_or_ones()
}
