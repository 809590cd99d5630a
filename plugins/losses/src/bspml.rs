//! The batch loss of balanced self-paced metric learning.

use crate::embeddings::Embeddings;
use crate::informative::{AnchorWeights, Constants, mean_weight};
use crate::masks::Masks;
use crate::means::not_zero;
use curricle_sdk::prelude::*;

/// Weighted informative batch loss of balanced self-paced metric learning.
///
/// `1/B Σ_i w_i { mean_{p∈P̂_i}(w_p) (1/α) log[1+Σ_{p∈P̂_i} e^{-α(S_ip-ρ)}]
///              + mean_{n∈N̂_i}(w_n) (1/β) log[1+Σ_{n∈N̂_i} e^{β(S_in-ρ)}] }`
///
/// The informative pairs P̂ and N̂ are those of `ms`. The weights stand outside the logarithms
/// and B counts all samples, so small weights make the loss small. With all weights 1 it is `ms`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Bspml {
    /// Sharpness α of the pull between positives.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Sharpness β of the push between negatives.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: f64,
    /// Similarity ρ around which pairs are pulled and pushed. The paper prints 1, with which
    /// negatives hardly push.
    pub rho: f64,
    /// Slack ε of the mining: the larger, the more pairs take part.
    #[schemars(range(min = 0.0))]
    pub epsilon: f64,
    /// What happens to samples of weight 0.
    pub zero_weight: ZeroWeight,
}

/// What happens to samples of weight 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ZeroWeight {
    /// They still stand in other anchors' log-sums and in the mining, as published.
    Keep,
    /// They leave the batch before mining, and B counts the others.
    Drop,
}

impl Default for Bspml {
    fn default() -> Self {
        Self { alpha: 2.0, beta: 50.0, rho: 0.5, epsilon: 0.1, zero_weight: ZeroWeight::Keep }
    }
}

impl Bspml {
    fn constants(&self) -> Constants {
        Constants { alpha: self.alpha, beta: self.beta, rho: self.rho, epsilon: self.epsilon }
    }
}

impl Loss for Bspml {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let similarities = embeddings.similarities();
        let constants = self.constants();
        let mut pairs = Masks::of(batch);
        let anchors = match embeddings.weights(batch) {
            Some(weights) => {
                let mut size = Tensor::full([1], batch.size(), (similarities.kind(), similarities.device()));
                if self.zero_weight == ZeroWeight::Drop {
                    let stays = weights.ne(0.0);
                    let both_stay = stays.unsqueeze(1).logical_and(&stays);
                    pairs.positive = pairs.positive.logical_and(&both_stay);
                    pairs.negative = pairs.negative.logical_and(&both_stay);
                    size = not_zero(&stays.sum(similarities.kind()));
                }
                pairs = constants.informative_pairs(&similarities, &pairs);
                let anchor = weights.unsqueeze(1) / size;
                AnchorWeights {
                    positive: &anchor * mean_weight(&pairs.positive, &weights),
                    negative: anchor * mean_weight(&pairs.negative, &weights),
                }
            }
            None => {
                pairs = constants.informative_pairs(&similarities, &pairs);
                let share =
                    Tensor::full([1, 1], 1.0 / batch.size() as f64, (similarities.kind(), similarities.device()));
                AnchorWeights { positive: share.shallow_clone(), negative: share }
            }
        };
        Ok(constants.loss(&embeddings, &similarities, &pairs, &anchors, log))
    }

    fn check(&self) -> Result<()> {
        self.constants().check()
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        self.constants().advice()
    }
}

register_loss!("bspml", Bspml, "weighted multi-similarity loss of balanced self-paced metric learning");
