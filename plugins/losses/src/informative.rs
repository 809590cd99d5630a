//! The multi-similarity loss of a batch with any weight on each anchor; `ms` and `bspml` differ
//! only in those weights.

use crate::embeddings::Embeddings;
use crate::masks::Masks;
use crate::means::log_one_plus_sum_exp;
use crate::{finite, not_negative, positive};
use curricle_sdk::{Advice, Log, Result};
use tch::{Kind, Tensor};

/// The constants of the two log-sums and of the mining.
#[derive(Debug, Clone, Copy)]
pub struct Constants {
    pub alpha: f64,
    pub beta: f64,
    pub rho: f64,
    pub epsilon: f64,
}

/// What each anchor's two terms count, `[B, 1]`.
#[derive(Debug)]
pub struct AnchorWeights {
    pub positive: Tensor,
    pub negative: Tensor,
}

impl Constants {
    /// The informative pairs: negatives more similar than the least similar positive less ε, and
    /// positives less similar than the most similar negative plus ε. An anchor that has no
    /// positives has no informative negatives, and the other way round.
    pub fn informative_pairs(&self, similarities: &Tensor, pairs: &Masks) -> Masks {
        let inf = f64::INFINITY;
        let least_positive = similarities.masked_fill(&pairs.positive.logical_not(), inf).amin(1, true);
        let most_negative = similarities.masked_fill(&pairs.negative.logical_not(), -inf).amax(1, true);
        Masks {
            positive: similarities.lt_tensor(&(most_negative + self.epsilon)).logical_and_(&pairs.positive),
            negative: similarities.gt_tensor(&(least_positive - self.epsilon)).logical_and_(&pairs.negative),
        }
    }

    /// `Σ_i c⁺_i (1/α) log[1+Σ_p e^{-α(S_ip-ρ)}] + c⁻_i (1/β) log[1+Σ_n e^{β(S_in-ρ)}]` over the
    /// informative pairs.
    pub fn loss(
        &self,
        embeddings: &Embeddings,
        similarities: &Tensor,
        informative: &Masks,
        anchors: &AnchorWeights,
        log: &mut Log,
    ) -> Tensor {
        let excess = similarities - self.rho;
        let none = f64::NEG_INFINITY;
        let (pull, pull_slope) =
            log_one_plus_sum_exp(&(&excess * -self.alpha).masked_fill_(&informative.positive.logical_not(), none), 1);
        let (push, push_slope) =
            log_one_plus_sum_exp(&(excess * self.beta).masked_fill_(&informative.negative.logical_not(), none), 1);
        let value = (pull * &anchors.positive / self.alpha + push * &anchors.negative / self.beta).sum(None);
        let slope = push_slope * &anchors.negative - pull_slope * &anchors.positive;

        let kind = similarities.kind();
        let per_anchor = |mask: &Tensor| mask.sum(kind) / mask.size()[0] as f64;
        log.scalar("informative_positives", || per_anchor(&informative.positive));
        log.scalar("informative_negatives", || per_anchor(&informative.negative));
        embeddings.loss_of_similarities(&value, &slope)
    }

    /// Refuses constants the formula has no meaning for.
    pub fn check(&self) -> Result<()> {
        positive("alpha", self.alpha)?;
        positive("beta", self.beta)?;
        finite("rho", self.rho)?;
        not_negative("epsilon", self.epsilon)
    }

    /// Warns of negatives that cannot push.
    ///
    /// A lone negative's share of the gradient is `1/(1+e^{-β(S-ρ)})`.
    pub fn advice(&self) -> Vec<Advice> {
        let mut advice = Vec::new();
        let similar: f64 = 0.8;
        let push = 1.0 / (1.0 + (-self.beta * (similar - self.rho)).exp());
        if push < 1e-3 {
            advice.push(Advice::new(
                "rho",
                format!(
                    "with `rho = {}` and `beta = {}` a negative as similar as {similar} pushes with only {push:.0e} of \
                     full strength, so negatives hardly count before everything has collapsed together; `rho = 0.5` \
                     is what the authors of the multi-similarity loss use",
                    self.rho, self.beta
                ),
            ));
        }
        if self.epsilon > 2.0 {
            advice.push(Advice::new(
                "epsilon",
                "similarities differ by at most 2, so every pair is informative and nothing is mined; 0.1 is usual",
            ));
        }
        advice
    }
}

/// The mean of `weights` over each row's informative pairs `[B, 1]`, 0 for none.
pub fn mean_weight(informative: &Tensor, weights: &Tensor) -> Tensor {
    let informative = informative.to_kind(weights.kind());
    let count = informative.sum_dim_intlist(1, true, None::<Kind>).clamp_min_(1.0);
    informative.mv(weights).unsqueeze(1) / count
}
