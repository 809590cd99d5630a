//! Triplet loss (Schroff et al., CVPR 2015; soft margin: Hermans et al., 2017).

use crate::reference::{self, all_triplets, triplet_weights};
use crate::triplets::{Triplets, one_hot};
use curricle_sdk::gradients::{Distances, Embeddings, not_zero, squared_distances};
use curricle_sdk::prelude::*;

/// Triplet loss over the triplets of a batch.
///
/// Smooth: the mean of `softplus(D_ap - D_an + m)` over all mined triplets. Hinge
/// (`smooth = false`): the mean of `relu(D_ap - D_an + m)` over those where it is not 0. A triplet
/// counts with `w_a w_p w_n`; samples of weight 0 are not mined.
///
/// Equals `TripletMarginLoss(margin, smooth_loss)` of pytorch-metric-learning without a
/// miner.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Triplet {
    /// Margin m by which a negative should be farther than the positive.
    #[schemars(range(min = -10.0, max = 10.0))]
    pub margin: f64,
    /// Softplus instead of the hinge.
    pub smooth: bool,
    /// Squared distances instead of distances.
    pub squared: bool,
    /// Which triplets of the batch are used.
    pub mining: Mining,
}

/// Which triplets of a batch are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mining {
    /// All of them.
    All,
    /// One per anchor: its farthest positive and its nearest negative.
    Hard,
    /// One per positive pair: the nearest negative that is farther than the positive. Pairs without
    /// one are skipped.
    Semihard,
}

impl Default for Triplet {
    fn default() -> Self {
        Self { margin: 0.0, smooth: true, squared: false, mining: Mining::All }
    }
}

impl Triplet {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (d, mut pairs) = (reference::distances(batch), batch.pair_masks());
        let d = if self.squared { d.square() } else { d };
        if self.mining == Mining::Hard {
            pairs = hardest(&d.detach(), &pairs);
        }
        let mut weights = all_triplets(&pairs) * triplet_weights(batch);
        if self.mining == Mining::Semihard {
            weights *= semihard(&d.detach(), &d.detach(), &pairs.negative);
        }
        let gaps = d.unsqueeze(2) - d.unsqueeze(1) + self.margin;
        if self.smooth {
            return weighted_mean(&gaps.softplus(), &weights);
        }
        let hinge = gaps.relu();
        weighted_mean(&hinge, &(hinge.sign() * weights))
    }
}

impl Loss for Triplet {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let roots = (!self.squared).then(|| Distances::of(&embeddings.points));
        let distances = match &roots {
            Some(roots) => roots.values.shallow_clone(),
            None => squared_distances(&embeddings.points),
        };
        let mut pairs = batch.pair_masks();
        if self.mining == Mining::Hard {
            pairs = hardest(&distances, &pairs);
        }
        let triplets = Triplets::of(&pairs, embeddings.weights(batch).as_ref(), distances.kind());
        let mined = (self.mining == Mining::Semihard)
            .then(|| semihard(&triplets.of_slots(&distances), &distances, &pairs.negative));

        let (values, mut grads) = if self.smooth {
            // log(1 + e^g) = -log σ(-g), which stays finite for distances of any size.
            let mut gaps = triplets.gaps(&distances, self.margin);
            ((-&gaps).log_sigmoid().neg_(), gaps.sigmoid_())
        } else {
            let hinge = triplets.gaps(&distances, self.margin).relu_();
            let active = hinge.sign();
            (hinge, active)
        };
        let values = match &mined {
            Some(mined) => {
                grads *= mined;
                values * mined
            }
            None => values,
        };
        let total = match (&mined, self.smooth) {
            (_, false) => triplets.sum(&grads),
            (Some(mined), true) => triplets.sum(mined),
            (None, true) => triplets.total(),
        };
        let (value, grad) = triplets.mean(&values, &grads, &total);
        log.scalar("active_triplets", || total / not_zero(&triplets.total()));
        let grad = match &roots {
            Some(roots) => roots.grad_of_squared(&grad),
            None => grad,
        };
        embeddings.loss_of_squared_distances(&value, &grad)
    }

    fn check(&self) -> Result<()> {
        if self.margin.abs() <= 10.0 {
            return Ok(());
        }
        Err(Error::setting(
            "margin",
            format!(
                "must be between -10 and 10, but is {}; distances of unit vectors are at most 2, squared at most 4",
                self.margin
            ),
        ))
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let farthest = if self.squared { 4.0 } else { 2.0 };
        let mut advice = Vec::new();
        if !self.smooth && self.margin <= -farthest {
            advice.push(Advice::new(
                "margin",
                format!("distances differ by at most {farthest}, so no triplet ever has a loss; use 0.1 to 0.3"),
            ));
        }
        if !self.smooth && self.mining == Mining::Semihard && self.margin <= 0.0 {
            advice.push(Advice::new(
                "margin",
                format!(
                    "a semi-hard negative is farther than the positive, so the hinge with `margin = {}` is always 0 \
                     and nothing is learned; use a margin above 0 or `smooth = true`",
                    self.margin
                ),
            ));
        }
        advice
    }
}

/// Only the farthest positive and the nearest negative of each anchor.
fn hardest(distances: &Tensor, pairs: &PairMasks) -> PairMasks {
    let size = distances.size()[0];
    let inf = f64::INFINITY;
    let farthest = distances.masked_fill(&pairs.positive.logical_not(), -inf).argmax(1, false);
    let nearest = distances.masked_fill(&pairs.negative.logical_not(), inf).argmin(1, false);
    // `logical_and` drops the arbitrary choice in rows without such a pair.
    PairMasks {
        positive: one_hot(&farthest, size).logical_and(&pairs.positive),
        negative: one_hot(&nearest, size).logical_and(&pairs.negative),
    }
}

/// For each distance `d_ap` `[B, k]` of a row, the nearest negative beyond it, as a 0/1 mask `[B, k, B]`.
fn semihard(d_ap: &Tensor, distances: &Tensor, negative: &Tensor) -> Tensor {
    let negatives = distances.masked_fill(&negative.logical_not(), f64::INFINITY).unsqueeze(1);
    let nearer = negatives.le_tensor(&d_ap.unsqueeze(2));
    let beyond = negatives.masked_fill(&nearer, f64::INFINITY);
    let exists = beyond.isfinite();
    one_hot(&beyond.argmin(2, false), distances.size()[0]).logical_and(&exists).to_kind(distances.kind())
}

register_loss!("triplet", Triplet, "triplet loss, smooth or hinge, all or mined triplets");
