//! The batch loss of balanced self-paced metric learning (BSPML).

use crate::memory::References;
use crate::ms::{AnchorWeights, MultiSimilarity};
use curricle_sdk::gradients::not_zero;
use curricle_sdk::prelude::*;

/// Weighted informative batch loss of balanced self-paced metric learning.
///
/// `1/B Σ_i w_i { mean_{p∈P̂_i}(w_p) (1/α) log[1+Σ_{p∈P̂_i} e^{-α(S_ip-ρ)}]
///              + mean_{n∈N̂_i}(w_n) (1/β) log[1+Σ_{n∈N̂_i} e^{β(S_in-ρ)}] }`
///
/// The informative pairs P̂ and N̂ are those of `ms`, and a mean over none of them is 0. The weights
/// are outside the logarithms. B is the size of the batch; with `zero_weight = "drop"` the number of
/// samples with w > 0, so that a sample of weight 0 is absent. With all weights 1 the loss equals `ms`.
///
/// The loss shrinks with the square of the weights, and so does its gradient: SGD then takes smaller
/// steps. `normalise = "weights"` divides by `Σ_i w_i (m⁺_i + m⁻_i)/2` instead of B, with `m⁺_i` and
/// `m⁻_i` the two means above, which makes the loss a weighted mean of the terms of `ms`. In this sum
/// the mean over no pairs is the mean weight of the batch: as in `ms`, an anchor without informative
/// pairs still counts. Multiplying all weights by a constant then changes nothing.
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
    /// What happens to samples of weight 0. They are dropped by default, which is better under noise and equal
    /// without (validation classes of `strokes`); the paper's formula keeps them.
    pub zero_weight: ZeroWeight,
    /// What the sum over the anchors is divided by. The size of the batch by default, as published.
    pub normalise: Normalisation,
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

/// What the sum over the anchors is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// The number of samples B, as published: small weights make the loss small.
    Batch,
    /// The weights that the terms are multiplied with: the loss is as large as `ms`, whatever the weights.
    Weights,
}

impl Default for Bspml {
    fn default() -> Self {
        let MultiSimilarity { alpha, beta, rho, epsilon, .. } = MultiSimilarity::default();
        Self { alpha, beta, rho, epsilon, zero_weight: ZeroWeight::Drop, normalise: Normalisation::Batch }
    }
}

impl Bspml {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (s, w) = (batch.similarities(), batch.weights_or_ones());
        let informative = self.ms().informative_pairs(&s.detach(), &self.pairs(batch));
        let (pull, push) = self.ms().reference_terms(&s, &informative, &w.ones_like());
        let size = self.size(&w);
        let mean_weight = |pairs: &Tensor, over_none: &Tensor| {
            let count = pairs.sum_dim_intlist(1, false, w.kind());
            let mean = (pairs * &w).sum_dim_intlist(1, false, None) / count.clamp_min(1.0);
            mean + over_none * count.eq(0.0)
        };
        let means = |over_none: &Tensor| {
            (mean_weight(&informative.positive, over_none), mean_weight(&informative.negative, over_none))
        };
        let (positive, negative) = means(&size.zeros_like());
        let sum = (&w * (positive * pull + negative * push)).sum(None);
        match self.normalise {
            Normalisation::Batch => sum / not_zero(&size),
            Normalisation::Weights => {
                let (positive, negative) = means(&(w.sum(None) / not_zero(&size)));
                sum / not_zero(&(w * (positive + negative) / 2.0).sum(None))
            }
        }
    }

    /// The loss without weights: settings, mining and log-sums are the same.
    fn ms(&self) -> MultiSimilarity {
        let Self { alpha, beta, rho, epsilon, .. } = *self;
        MultiSimilarity { alpha, beta, rho, epsilon, ..Default::default() }
    }

    /// The pairs to mine from.
    fn pairs(&self, batch: &Batch) -> PairMasks {
        match self.zero_weight {
            ZeroWeight::Keep => Batch { weights: None, ..*batch }.pair_masks(),
            ZeroWeight::Drop => batch.pair_masks(),
        }
    }

    /// The number of samples B, a scalar.
    fn size(&self, weights: &Tensor) -> Tensor {
        match self.zero_weight {
            ZeroWeight::Keep => weights.ones_like().sum(None),
            ZeroWeight::Drop => weights.gt(0.0).sum(weights.kind()),
        }
    }
}

impl Loss for Bspml {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let (references, ms) = (References::of_batch(batch, self.pairs(batch)), self.ms());
        let similarities = references.similarities();
        let informative = ms.informative_pairs(&similarities, &references.pairs);
        let Some(weights) = &references.weights else {
            let anchors = AnchorWeights::uniform(batch, &similarities);
            return ms.weighted_loss(&references, &similarities, &informative, &anchors, None, log);
        };
        let size = not_zero(&self.size(weights));
        let (positive, negative) =
            (MeanWeight::of(&informative.positive, weights), MeanWeight::of(&informative.negative, weights));
        let total = match self.normalise {
            Normalisation::Batch => size,
            Normalisation::Weights => {
                let of_batch = weights.sum(None) / size;
                let means = positive.or(&of_batch) + negative.or(&of_batch);
                not_zero(&(weights.dot(&means.squeeze_dim(1)) / 2.0))
            }
        };
        let anchor = weights.unsqueeze(1) / total;
        let anchors = AnchorWeights { positive: &anchor * positive.mean, negative: anchor * negative.mean };
        ms.weighted_loss(&references, &similarities, &informative, &anchors, None, log)
    }

    fn check(&self) -> Result<()> {
        self.ms().check()
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        self.ms().advice(data)
    }
}

/// The mean weight of each row's informative pairs.
struct MeanWeight {
    /// The mean `[B, 1]`, 0 for rows without any.
    mean: Tensor,
    /// How many there are `[B, 1]`.
    count: Tensor,
}

impl MeanWeight {
    fn of(informative: &Tensor, weights: &Tensor) -> Self {
        let informative = informative.to_kind(weights.kind());
        let count = informative.sum_dim_intlist(1, true, None::<Kind>);
        Self { mean: informative.mv(weights).unsqueeze(1) / count.clamp_min(1.0), count }
    }

    /// The means, with `default` in rows without informative pairs.
    fn or(&self, default: &Tensor) -> Tensor {
        default.where_self(&self.count.eq(0.0), &self.mean)
    }
}

register_loss!("bspml", Bspml, "weighted multi-similarity loss of balanced self-paced metric learning");
