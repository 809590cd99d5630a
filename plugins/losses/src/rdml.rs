//! Robust distance metric learning with a rescaled hinge (RDML).

use crate::reference::{self, all_triplets, triplet_weights};
use crate::triplets::Triplets;
use crate::{finite, positive};
use curricle_sdk::gradients::{Embeddings, not_zero, squared_distances};
use curricle_sdk::prelude::*;

/// Triplet loss with the rescaled hinge.
///
/// The mean over the triplets of the batch with ℓ > 0 of `β_η [1 - exp(-η ℓ)]`, where
/// `ℓ = relu(m + D²_ap - D²_an)` and `β_η = 1/(1-e^{-η})`. It is bounded by β_η, so the influence of
/// a mislabelled triplet is bounded; η → 0 recovers the hinge. A triplet counts with
/// `w_a w_p w_n`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rdml {
    /// Rescaling parameter η: the larger, the sooner the loss of a triplet saturates. The paper selects it from 0.5,
    /// 1, 2, 3, 4.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub eta: f64,
    /// Margin m by which a negative should be farther than the positive, in squared distance.
    pub margin: f64,
}

impl Default for Rdml {
    fn default() -> Self {
        Self { eta: 1.0, margin: 1.0 }
    }
}

impl Rdml {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let squared = reference::distances(batch).square();
        let hinge = (self.margin + squared.unsqueeze(2) - squared.unsqueeze(1)).relu();
        let terms = (1.0 - (&hinge * -self.eta).exp()) / (1.0 - (-self.eta).exp());
        let active = all_triplets(&batch.pair_masks()) * hinge.sign();
        weighted_mean(&terms, &(active * triplet_weights(batch)))
    }
}

impl Loss for Rdml {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let triplets = Triplets::of(&batch.pair_masks(), embeddings.weights(batch).as_ref(), embeddings.points.kind());
        let hinge = triplets.gaps(&squared_distances(&embeddings.points), self.margin).relu_();
        let active = hinge.sign();
        // β_η = -1/expm1(-η) stays exact for small η, where 1 - e^{-η} cancels.
        let scale = -1.0 / (-self.eta).exp_m1();
        let values = (&hinge * -self.eta).expm1() * -scale;
        let grads = (hinge * -self.eta).exp_() * (scale * self.eta) * &active;
        let counted = triplets.sum(&active);
        let (value, grad) = triplets.mean(&values, &grads, &counted);
        log.scalar("active_triplets", || counted / not_zero(&triplets.total()));
        embeddings.loss_of_squared_distances(&value, &grad)
    }

    fn check(&self) -> Result<()> {
        positive("eta", self.eta)?;
        finite("margin", self.margin)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let mut advice = Vec::new();
        // The gradient of a triplet with D_ap = D_an, relative to one that is almost solved.
        let at_margin = (-self.eta * self.margin).exp();
        if at_margin < 1e-3 {
            advice.push(Advice::new(
                "eta",
                format!(
                    "with `eta = {}` and `margin = {}` a triplet whose negative is as close as its positive has only \
                     {at_margin:.0e} of the full gradient, so hardly anything is learned; use 0.5 to 4 with margin 1 \
                     as the paper does",
                    self.eta, self.margin
                ),
            ));
        }
        if self.margin <= -4.0 {
            advice.push(Advice::new(
                "margin",
                "squared distances differ by at most 4, so no triplet ever has a loss; use 1",
            ));
        }
        advice
    }
}

register_loss!("rdml", Rdml, "triplet loss with a rescaled, bounded hinge");
