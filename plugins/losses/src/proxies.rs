//! Learnable vectors of the classes, and the cross-entropy of losses that classify by them.

use crate::triplets::one_hot;
use curricle_sdk::gradients::{Embeddings, not_zero};
use curricle_sdk::mm;
use curricle_sdk::prelude::*;

/// Cosines of a batch to the K learnable proxies, whose tensor `proxies` is `[C, D]` or `[C, centers, D]`.
#[derive(Debug)]
pub(crate) struct Proxies<'a> {
    tensor: &'a Tensor,
    /// `[K, D]`, detached, in the precision of the loss.
    raw: Tensor,
    /// `1 / |p|` `[K]`.
    inverse: Tensor,
    /// `[B, K]`.
    pub cosines: Tensor,
}

impl<'a> Proxies<'a> {
    pub(crate) fn of(batch: &Batch<'a>, embeddings: &Embeddings) -> Self {
        let tensor = batch.tensors.get("proxies");
        let raw = tensor.detach().to_kind(embeddings.points.kind()).flatten(0, -2);
        let inverse = raw.norm_scalaropt_dim(2.0, 1, false).clamp_min_(1e-12).reciprocal_();
        let cosines = mm(&embeddings.points, &raw.tr()).g_mul_(&inverse);
        Self { tensor, raw, inverse, cosines }
    }

    /// A loss with this value and the gradient `grad` `[B, K]` with respect to the cosines.
    pub(crate) fn loss(&self, embeddings: &Embeddings, value: &Tensor, grad: &Tensor) -> Result<Tensor> {
        // ∂cos(x, p)/∂p = x/|p| - cos(x, p) p/|p|².
        let scaled = grad * &self.inverse;
        let along = (&scaled * &self.cosines).sum_dim_intlist(0, false, None) * &self.inverse;
        let by_proxy = mm(&scaled.tr(), &embeddings.points) - &self.raw * along.unsqueeze(1);
        embeddings.loss_with(value, &mm(&scaled, &self.raw), self.tensor, &by_proxy.view_as(self.tensor))
    }

    /// The cosines `[B, C]` or `[B, C, centers]` in plain tensor operations, for the `reference` of a loss.
    pub(crate) fn reference_cosines(batch: &Batch) -> Tensor {
        let proxies = batch.tensors.get("proxies");
        let unit = proxies / proxies.norm_scalaropt_dim(2.0, -1, true).clamp_min(1e-12);
        let mut shape = proxies.size();
        shape[0] = -1;
        let cosines = batch.embeddings.matmul(&unit.flatten(0, -2).tr());
        match shape.len() {
            2 => cosines,
            _ => cosines.view([batch.size(), -1, shape[1]]),
        }
    }
}

/// The mean over the samples, weighted by `w_i`, of the cross-entropy of `logits` `[B, C]`; and its gradient.
pub(crate) fn cross_entropy(
    logits: &Tensor,
    batch: &Batch,
    weights: Option<Tensor>,
    log: &mut Log,
) -> (Tensor, Tensor) {
    let labels = batch.labels.unsqueeze(1);
    let share = match weights {
        Some(weights) => (&weights / not_zero(&weights.sum(None))).unsqueeze(1),
        None => Tensor::full([logits.size()[0], 1], 1.0 / batch.size() as f64, (logits.kind(), logits.device())),
    };
    let log_probabilities = logits.log_softmax(1, None);
    let value = -(log_probabilities.gather(1, &labels, false) * &share).sum(None);
    log.scalar("accuracy", || (logits.argmax(1, true).eq_tensor(&labels) * &share).sum(None));
    let grad = (log_probabilities.exp() - one_hot(batch.labels, logits.size()[1]).to_kind(logits.kind())) * share;
    (value, grad)
}

/// The same mean in plain tensor operations, for the `reference` of a loss.
pub(crate) fn reference_cross_entropy(logits: &Tensor, batch: &Batch) -> Tensor {
    let log_probabilities = logits.log_softmax(1, None).gather(1, &batch.labels.unsqueeze(1), false);
    weighted_mean(&-log_probabilities.squeeze_dim(1), &batch.weights_or_ones())
}
