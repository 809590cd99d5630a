//! Multi-similarity loss (Wang et al., CVPR 2019).

use crate::memory::{CrossBatchMemory, References};
use crate::{finite, not_negative, positive};
use curricle_sdk::gradients::{log_one_plus_sum_exp, not_zero};
use curricle_sdk::prelude::*;

/// Multi-similarity loss with mining of informative pairs.
///
/// `1/B Σ_i { (1/α) log[1+Σ_{p∈P̂_i} e^{-α(S_ip-ρ)}] + (1/β) log[1+Σ_{n∈N̂_i} e^{β(S_in-ρ)}] }`
///
/// `N̂_i` are the negatives with `S_in > min_p S_ip - ε`, `P̂_i` the positives with
/// `S_ip < max_n S_in + ε`, with memory also those stored there. An anchor without informative pairs adds 0 and still counts in B.
///
/// With weights `Σ_i w_i { (1/α) log[1+Σ_p w_p e^{-α(S_ip-ρ)}] + (1/β) log[1+Σ_n w_n e^{β(S_in-ρ)}] } / Σ_i w_i`,
/// and the minimum and maximum of the mining are over samples with w > 0.
///
/// Equals `MultiSimilarityLoss(base = ρ)` with `MultiSimilarityMiner(ε)` of
/// pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MultiSimilarity {
    /// Sharpness α of the attraction between positives.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Sharpness β of the repulsion between negatives.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub beta: f64,
    /// Similarity threshold ρ around which pairs attract and repel. 0.5 as in the authors' code; some papers print
    /// 1, at which negatives hardly repel.
    pub rho: f64,
    /// Mining margin ε: the larger, the more pairs are informative.
    #[schemars(range(min = 0.0))]
    pub epsilon: f64,
    /// Embeddings of earlier batches that anchors are compared with, too.
    pub memory: CrossBatchMemory,
}

impl Default for MultiSimilarity {
    fn default() -> Self {
        Self { alpha: 2.0, beta: 50.0, rho: 0.5, epsilon: 0.1, memory: CrossBatchMemory::default() }
    }
}

impl MultiSimilarity {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let references = self.memory.references(batch);
        let s = batch.embeddings.matmul(&self.memory.reference_embeddings(batch).tr());
        let informative = self.informative_pairs(&s.detach(), &references.pairs);
        let others = references.weights.as_ref().map_or_else(|| batch.weights_or_ones(), Tensor::shallow_clone);
        let (pull, push) = self.reference_terms(&s, &informative, &others);
        weighted_mean(&(pull + push), &batch.weights_or_ones())
    }

    /// The two logarithms of each anchor `[B]`, divided by α and β; an exponential counts with its weight `[B]`.
    pub(crate) fn reference_terms(&self, s: &Tensor, informative: &PairMasks, weights: &Tensor) -> (Tensor, Tensor) {
        let log_sum = |z: Tensor, pairs: &Tensor| (z.exp() * pairs * weights).sum_dim_intlist(1, false, None).log1p();
        let pull = log_sum((s - self.rho) * -self.alpha, &informative.positive) / self.alpha;
        let push = log_sum((s - self.rho) * self.beta, &informative.negative) / self.beta;
        (pull, push)
    }

    /// The informative pairs: negatives more similar than the least similar positive minus ε, and positives less
    /// similar than the most similar negative plus ε. An anchor without positives has no informative negatives, and
    /// vice versa.
    pub(crate) fn informative_pairs(&self, similarities: &Tensor, pairs: &PairMasks) -> PairMasks {
        let inf = f64::INFINITY;
        let least_positive = similarities.masked_fill(&pairs.positive.logical_not(), inf).amin(1, true);
        let most_negative = similarities.masked_fill(&pairs.negative.logical_not(), -inf).amax(1, true);
        PairMasks {
            positive: similarities.lt_tensor(&(most_negative + self.epsilon)).logical_and_(&pairs.positive),
            negative: similarities.gt_tensor(&(least_positive - self.epsilon)).logical_and_(&pairs.negative),
        }
    }

    /// `Σ_i c⁺_i (1/α) log[1+Σ_p w_p e^{-α(S_ip-ρ)}] + c⁻_i (1/β) log[1+Σ_n w_n e^{β(S_in-ρ)}]` over the informative
    /// pairs, for any weights `c` of the anchors and `w` of the others `[B]`, all 1 if there are none. `ms` and
    /// `bspml` differ only in these.
    pub(crate) fn weighted_loss(
        &self,
        references: &References,
        similarities: &Tensor,
        informative: &PairMasks,
        anchors: &AnchorWeights,
        others: Option<&Tensor>,
        log: &mut Log,
    ) -> Result<Tensor> {
        let excess = similarities - self.rho;
        // w e^z = e^(z + log w). The logarithm of 0 is -∞, but samples of weight 0 are not informative for `ms`.
        let log_weights = others.map(Tensor::log);
        let log_sum = |mut z: Tensor, pairs: &Tensor| {
            if let Some(log_weights) = &log_weights {
                z += log_weights;
            }
            log_one_plus_sum_exp(&z.masked_fill_(&pairs.logical_not(), f64::NEG_INFINITY), 1)
        };
        let (pull, pull_grad) = log_sum(&excess * -self.alpha, &informative.positive);
        let (push, push_grad) = log_sum(excess * self.beta, &informative.negative);
        let value = (pull * &anchors.positive / self.alpha + push * &anchors.negative / self.beta).sum(None);
        let grad = push_grad * &anchors.negative - pull_grad * &anchors.positive;

        let kind = similarities.kind();
        let per_anchor = |mask: &Tensor| mask.sum(kind) / mask.size()[0] as f64;
        log.scalar("informative_positives", || per_anchor(&informative.positive));
        log.scalar("informative_negatives", || per_anchor(&informative.negative));
        references.loss_of_similarities(&value, &grad)
    }
}

/// The weight of each anchor's two terms, `[B, 1]`, or `[1, 1]` for the same weight everywhere.
#[derive(Debug)]
pub(crate) struct AnchorWeights {
    pub positive: Tensor,
    pub negative: Tensor,
}

impl AnchorWeights {
    /// The same weight for both terms.
    pub(crate) fn same(weight: Tensor) -> Self {
        Self { positive: weight.shallow_clone(), negative: weight }
    }

    /// `1/B` for every anchor.
    pub(crate) fn uniform(batch: &Batch, similarities: &Tensor) -> Self {
        Self::same(Tensor::full([1, 1], 1.0 / batch.size() as f64, (similarities.kind(), similarities.device())))
    }
}

impl Loss for MultiSimilarity {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let references = self.memory.references(batch);
        let similarities = references.similarities();
        let informative = self.informative_pairs(&similarities, &references.pairs);
        let anchors = match references.anchor_weights() {
            Some(weights) => AnchorWeights::same((&weights / not_zero(&weights.sum(None))).unsqueeze(1)),
            None => AnchorWeights::uniform(batch, &similarities),
        };
        self.memory.store(batch, log);
        self.weighted_loss(&references, &similarities, &informative, &anchors, references.weights.as_ref(), log)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        self.memory.tensors(shape)
    }

    fn check(&self) -> Result<()> {
        positive("alpha", self.alpha)?;
        positive("beta", self.beta)?;
        finite("rho", self.rho)?;
        not_negative("epsilon", self.epsilon)?;
        self.memory.check()
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let mut advice = Vec::new();
        // The gradient of a single negative is 1/(1+e^{-β(S-ρ)}), at most 1.
        let similar: f64 = 0.8;
        let push = 1.0 / (1.0 + (-self.beta * (similar - self.rho)).exp());
        if push < 1e-3 {
            advice.push(Advice::new(
                "rho",
                format!(
                    "with `rho = {}` and `beta = {}` a negative at similarity {similar} repels with only {push:.0e} of \
                     full strength, so negatives hardly count until all embeddings have collapsed together; use \
                     `rho = 0.5` as the authors of the multi-similarity loss do",
                    self.rho, self.beta
                ),
            ));
        }
        if self.epsilon > 2.0 {
            advice.push(Advice::new(
                "epsilon",
                "similarities differ by at most 2, so every pair is informative and nothing is mined; use 0.1",
            ));
        }
        advice
    }
}

register_loss!("ms", MultiSimilarity, "multi-similarity loss with mining of informative pairs");
