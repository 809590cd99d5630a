//! Multi-similarity loss (Wang et al., CVPR 2019).

use crate::embeddings::Embeddings;
use crate::informative::{AnchorWeights, Constants};
use crate::masks::Masks;
use crate::means::not_zero;
use curricle_sdk::prelude::*;

/// Multi-similarity loss with informative-pair mining.
///
/// `1/B Σ_i { (1/α) log[1+Σ_{p∈P̂_i} e^{-α(S_ip-ρ)}] + (1/β) log[1+Σ_{n∈N̂_i} e^{β(S_in-ρ)}] }`
///
/// `N̂_i` are the negatives with `S_in > min_p S_ip - ε`, `P̂_i` the positives with
/// `S_ip < max_n S_in + ε`. An anchor without informative pairs adds 0 and still counts in B.
/// With weights the mean over anchors is the weighted one.
///
/// The same as `MultiSimilarityLoss(base = ρ)` with `MultiSimilarityMiner(ε)` of
/// pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MultiSimilarity {
    /// Sharpness α of the pull between positives.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Sharpness β of the push between negatives.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: f64,
    /// Similarity ρ around which pairs are pulled and pushed. 0.5 as in the authors' code; some
    /// papers print 1, with which negatives hardly push.
    pub rho: f64,
    /// Slack ε of the mining: the larger, the more pairs take part.
    #[schemars(range(min = 0.0))]
    pub epsilon: f64,
}

impl Default for MultiSimilarity {
    fn default() -> Self {
        Self { alpha: 2.0, beta: 50.0, rho: 0.5, epsilon: 0.1 }
    }
}

impl MultiSimilarity {
    fn constants(&self) -> Constants {
        Constants { alpha: self.alpha, beta: self.beta, rho: self.rho, epsilon: self.epsilon }
    }
}

impl Loss for MultiSimilarity {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let similarities = embeddings.similarities();
        let constants = self.constants();
        let informative = constants.informative_pairs(&similarities, &Masks::of(batch));
        let share = match embeddings.weights(batch) {
            Some(weights) => (&weights / not_zero(&weights.sum(None))).unsqueeze(1),
            None => Tensor::full([1, 1], 1.0 / batch.size() as f64, (similarities.kind(), similarities.device())),
        };
        let anchors = AnchorWeights { positive: share.shallow_clone(), negative: share };
        Ok(constants.loss(&embeddings, &similarities, &informative, &anchors, log))
    }

    fn check(&self) -> Result<()> {
        self.constants().check()
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        self.constants().advice()
    }
}

register_loss!("ms", MultiSimilarity, "multi-similarity loss with informative-pair mining");
