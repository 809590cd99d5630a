//! The batch loss of balanced self-paced metric learning (BSPML).

use crate::ms::{AnchorWeights, MultiSimilarity};
use curricle_sdk::gradients::{Embeddings, not_zero};
use curricle_sdk::prelude::*;

/// Weighted informative batch loss of balanced self-paced metric learning.
///
/// `1/B Σ_i w_i { mean_{p∈P̂_i}(w_p) (1/α) log[1+Σ_{p∈P̂_i} e^{-α(S_ip-ρ)}]
///              + mean_{n∈N̂_i}(w_n) (1/β) log[1+Σ_{n∈N̂_i} e^{β(S_in-ρ)}] }`
///
/// The informative pairs P̂ and N̂ are those of `ms`. The weights are outside the logarithms
/// and B counts all samples, so small weights make the loss small. With all weights 1 it equals `ms`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bspml {
    /// Sharpness α of the attraction between positives. The default is that of `ms`.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Sharpness β of the repulsion between negatives. The default is that of `ms`.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: f64,
    /// Similarity threshold ρ around which pairs attract and repel. The default is that of `ms`; the paper prints
    /// 1, at which negatives hardly repel.
    pub rho: f64,
    /// Mining margin ε: the larger, the more pairs are informative. The default is that of `ms`.
    #[schemars(range(min = 0.0))]
    pub epsilon: f64,
    /// What happens to samples of weight 0. They are kept by default, as published.
    pub zero_weight: ZeroWeight,
}

/// What happens to samples of weight 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ZeroWeight {
    /// They stay in the log-sums of other anchors and in the mining, as published.
    Keep,
    /// They are removed from the batch before mining, and B does not count them.
    Drop,
}

impl Default for Bspml {
    fn default() -> Self {
        let MultiSimilarity { alpha, beta, rho, epsilon } = MultiSimilarity::default();
        Self { alpha, beta, rho, epsilon, zero_weight: ZeroWeight::Keep }
    }
}

impl Bspml {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (s, w, mut pairs) = (batch.similarities(), batch.weights_or_ones(), batch.pair_masks());
        let mut size = w.ones_like().sum(None);
        if self.zero_weight == ZeroWeight::Drop {
            pairs = without_zero_weights(&pairs, &w);
            size = w.sign().sum(None);
        }
        let informative = self.ms().informative_pairs(&s.detach(), &pairs);
        let (pull, push) = self.ms().reference_terms(&s, &informative);
        let mean_weight = |pairs: &Tensor| {
            (pairs * &w).sum_dim_intlist(1, false, None) / pairs.sum_dim_intlist(1, false, w.kind()).clamp_min(1.0)
        };
        let terms = mean_weight(&informative.positive) * pull + mean_weight(&informative.negative) * push;
        (w * terms).sum(None) / not_zero(&size)
    }

    /// The loss without weights: settings, mining and log-sums are the same.
    fn ms(&self) -> MultiSimilarity {
        MultiSimilarity { alpha: self.alpha, beta: self.beta, rho: self.rho, epsilon: self.epsilon }
    }
}

impl Loss for Bspml {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let (embeddings, ms) = (Embeddings::of(batch), self.ms());
        let similarities = embeddings.similarities();
        let mut pairs = batch.pair_masks();
        let Some(weights) = embeddings.weights(batch) else {
            let informative = ms.informative_pairs(&similarities, &pairs);
            let anchors = AnchorWeights::uniform(batch, &similarities);
            return ms.weighted_loss(&embeddings, &similarities, &informative, &anchors, log);
        };
        let mut size = Tensor::full([1], batch.size(), (similarities.kind(), similarities.device()));
        if self.zero_weight == ZeroWeight::Drop {
            pairs = without_zero_weights(&pairs, &weights);
            size = not_zero(&weights.ne(0.0).sum(similarities.kind()));
        }
        let informative = ms.informative_pairs(&similarities, &pairs);
        let anchor = weights.unsqueeze(1) / size;
        let anchors = AnchorWeights {
            positive: &anchor * mean_weight(&informative.positive, &weights),
            negative: anchor * mean_weight(&informative.negative, &weights),
        };
        ms.weighted_loss(&embeddings, &similarities, &informative, &anchors, log)
    }

    fn check(&self) -> Result<()> {
        self.ms().check()
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        self.ms().advice(data)
    }
}

/// The pairs of which neither sample has weight 0.
fn without_zero_weights(pairs: &PairMasks, weights: &Tensor) -> PairMasks {
    let stays = weights.ne(0.0);
    let both_stay = stays.unsqueeze(1).logical_and(&stays);
    PairMasks { positive: pairs.positive.logical_and(&both_stay), negative: pairs.negative.logical_and(&both_stay) }
}

/// The mean of `weights` over the informative pairs of each row `[B, 1]`, 0 for rows without any.
fn mean_weight(informative: &Tensor, weights: &Tensor) -> Tensor {
    let informative = informative.to_kind(weights.kind());
    let count = informative.sum_dim_intlist(1, true, None::<Kind>).clamp_min_(1.0);
    informative.mv(weights).unsqueeze(1) / count
}

register_loss!("bspml", Bspml, "weighted multi-similarity loss of balanced self-paced metric learning");
