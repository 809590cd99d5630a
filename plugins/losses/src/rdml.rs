//! Robust distance metric learning with a rescaled hinge (RDML).

use crate::distances::squared_distances;
use crate::embeddings::Embeddings;
use crate::masks::Masks;
use crate::means::not_zero;
use crate::triplets::Triplets;
use crate::{finite, positive};
use curricle_sdk::prelude::*;

/// Triplet loss with the rescaled hinge.
///
/// The mean over the triplets of the batch with ℓ > 0 of `β_η [1 - exp(-η ℓ)]`, where
/// `ℓ = relu(m + D²_ap - D²_an)` and `β_η = 1/(1-e^{-η})`. It is bounded by β_η, so the pull of a
/// mislabelled triplet is bounded; η → 0 recovers the hinge. A triplet counts with
/// `w_a w_p w_n`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rdml {
    /// How soon the loss of a triplet levels off, η. The paper selects it from 0.5, 1, 2, 3, 4.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub eta: f64,
    /// How much farther than the positive a negative should be, in squared distance.
    pub margin: f64,
}

impl Default for Rdml {
    fn default() -> Self {
        Self { eta: 1.0, margin: 1.0 }
    }
}

impl Loss for Rdml {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let triplets = Triplets::of(&Masks::of(batch), embeddings.weights(batch).as_ref(), embeddings.points.kind());
        let hinge = triplets.gaps(&squared_distances(&embeddings.points), self.margin).relu_();
        let active = hinge.sign();
        // β_η = -1/expm1(-η): also right where 1 - e^{-η} would cancel.
        let scale = -1.0 / (-self.eta).exp_m1();
        let values = (&hinge * -self.eta).expm1() * -scale;
        let slopes = (hinge * -self.eta).exp_() * (scale * self.eta) * &active;
        let counted = triplets.sum(&active);
        let (value, slope) = triplets.mean(&values, &slopes, &counted);
        log.scalar("active_triplets", || counted / not_zero(&triplets.total()));
        Ok(embeddings.loss_of_squared_distances(&value, &slope))
    }

    fn check(&self) -> Result<()> {
        positive("eta", self.eta)?;
        finite("margin", self.margin)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let mut advice = Vec::new();
        // The gradient of a triplet at the margin, relative to one that is solved.
        let at_margin = (-self.eta * self.margin).exp();
        if at_margin < 1e-3 {
            advice.push(Advice::new(
                "eta",
                format!(
                    "with `eta = {}` and `margin = {}` a triplet whose negative is as near as its positive moves with \
                     only {at_margin:.0e} of full strength, so hardly anything is learned; the paper uses 0.5 to 4 \
                     with margin 1",
                    self.eta, self.margin
                ),
            ));
        }
        if self.margin <= -4.0 {
            advice.push(Advice::new(
                "margin",
                "squared distances differ by at most 4, so no triplet ever counts; 1 is usual",
            ));
        }
        advice
    }
}

register_loss!("rdml", Rdml, "triplet loss with a rescaled, bounded hinge");
