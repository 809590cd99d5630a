//! Circle loss (Sun et al., CVPR 2020).

use crate::memory::CrossBatchMemory;
use crate::positive;
use curricle_sdk::gradients::not_zero;
use curricle_sdk::prelude::*;

/// Circle loss on pairs: the farther a similarity is from its optimum, the stronger its pair pulls or pushes.
///
/// The mean over the anchors that have positives and negatives of
/// `log[1 + Σ_n e^{γ α_n (S_in - m)} Σ_p e^{-γ α_p (S_ip - 1 + m)}]` with `α_n = relu(S_in + m)` and
/// `α_p = relu(1 + m - S_ip)`, which are constants for the gradient. With weights, an exponential counts
/// with `w_n` or `w_p`, and the mean over anchors is weighted by `w_i`.
///
/// Equals `CircleLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Circle {
    /// Relaxation margin m: the optima are 1 + m and -m. 0.4 as in the paper's image retrieval.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub margin: f64,
    /// Scale γ of the similarities. 80 as in the paper's image retrieval.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub gamma: f64,
    /// Embeddings of earlier batches that anchors are compared with, too.
    pub memory: CrossBatchMemory,
}

impl Default for Circle {
    fn default() -> Self {
        Self { margin: 0.4, gamma: 80.0, memory: CrossBatchMemory::default() }
    }
}

/// The exponent of a pair that does not count. Not -∞, so that rows without pairs have a softmax.
const EXCLUDED: f64 = -1e30;

impl Circle {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let references = self.memory.references(batch);
        let s = batch.embeddings.matmul(&self.memory.reference_embeddings(batch).tr());
        let weights = references.weights.as_ref().map_or_else(|| batch.weights_or_ones(), Tensor::shallow_clone);
        let sum = |z: Tensor, pairs: &Tensor| (z.exp() * pairs * &weights).sum_dim_intlist(1, false, None);
        let pull = (1.0 + self.margin - s.detach()).relu() * (&s - (1.0 - self.margin)) * -self.gamma;
        let push = (s.detach() + self.margin).relu() * (s - self.margin) * self.gamma;
        let terms = (sum(pull, &references.pairs.positive) * sum(push, &references.pairs.negative)).log1p();
        weighted_mean(&terms, &(batch.weights_or_ones() * has_both(&references.pairs, terms.kind())))
    }
}

/// 1 for the anchors that have positives and negatives, else 0 `[B]`.
fn has_both(pairs: &PairMasks, kind: Kind) -> Tensor {
    pairs.positive.any_dim(1, false).logical_and(&pairs.negative.any_dim(1, false)).to_kind(kind)
}

impl Loss for Circle {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let references = self.memory.references(batch);
        let s = references.similarities();
        let log_weights = references.weights.as_ref().map(Tensor::log);
        // The logarithm of the sum over the pairs `[B, 1]`, and each pair's share of the sum.
        let log_sum = |mut z: Tensor, pairs: &Tensor| {
            if let Some(log_weights) = &log_weights {
                z += log_weights;
            }
            let z = z.masked_fill_(&pairs.logical_not(), EXCLUDED);
            (z.logsumexp(1, true), z.softmax(1, None))
        };
        let positive_slope = (1.0 + self.margin - &s).relu_() * -self.gamma;
        let negative_slope = (&s + self.margin).relu_() * self.gamma;
        let (pull, pull_share) = log_sum(&positive_slope * (&s - (1.0 - self.margin)), &references.pairs.positive);
        let (push, push_share) = log_sum(&negative_slope * (&s - self.margin), &references.pairs.negative);

        let mut counted = has_both(&references.pairs, s.kind());
        if let Some(weights) = references.anchor_weights() {
            counted *= weights;
        }
        let share = (&counted / not_zero(&counted.sum(None))).unsqueeze(1);
        let exponent = pull + push;
        let value = (exponent.softplus() * &share).sum(None);
        let by_exponent = exponent.sigmoid() * share;
        let grad = (pull_share * positive_slope + push_share * negative_slope) * by_exponent;
        self.memory.store(batch, log);
        references.loss_of_similarities(&value, &grad)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        self.memory.tensors(shape)
    }

    fn gradient_is_exact(&self) -> bool {
        false
    }

    fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.margin) {
            return Err(Error::setting("margin", format!("must be between 0 and 1, but is {}", self.margin)));
        }
        positive("gamma", self.gamma)?;
        self.memory.check()
    }
}

register_loss!("circle", Circle, "Circle loss: pairs weighted by the distance from their optimum");
