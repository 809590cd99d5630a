//! Margin loss with distance-weighted sampling (Wu et al., ICCV 2017).

use crate::distance_weighted::{SampledNegatives, sample_negatives};
use crate::reference::{self, all_triplets, triplet_weights};
use crate::triplets::{Triplets, one_hot};
use crate::{finite, not_negative};
use curricle_sdk::gradients::{Distances, Embeddings, gradient_of_squared_distances, not_zero};
use curricle_sdk::prelude::*;

/// Margin loss: positives closer than `β - α`, negatives farther than `β + α`.
///
/// `Σ relu(α + D_ap - β) + Σ relu(α + β - D_an)` over the triplets, divided by the number of terms
/// that are not 0. A triplet counts with `w_a w_p w_n`, also in that number; negatives of weight 0
/// are not sampled.
///
/// `sampling = "distance_weighted"` forms one triplet for every positive pair: its negative is
/// sampled with `P(n|a) ∝ 1/q(max(D_an, 0.5))` among the negatives with `D_an < 1.4`, where
/// `log q(D) = (d-2) log D + (d-3)/2 log(1 - D²/4)` is the density of distances on the unit sphere. An
/// anchor without such a negative forms no triplets. pytorch-metric-learning's
/// `DistanceWeightedMiner` also samples the positives, with replacement, and normalises by the
/// largest weight in the batch, so the weights of most anchors underflow to 0; with
/// `sampling = "all"` this equals its `MarginLoss`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Margin {
    /// Margin α: half the width of the gap between positives and negatives.
    #[schemars(range(min = 0.0))]
    pub margin: f64,
    /// Boundary β between positives and negatives; the initial value if it is learned.
    pub beta: f64,
    /// Whether the boundary β is learned, as the tensor `beta` in the parameter group `beta`.
    pub learn_beta: LearnBeta,
    /// Which triplets of the batch are used.
    pub sampling: TripletSampling,
}

/// Whether the boundary β is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LearnBeta {
    /// It is fixed.
    None,
    /// One for all classes.
    Global,
    /// One per class; a triplet uses that of its anchor.
    Class,
}

/// Which triplets of a batch are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TripletSampling {
    /// One negative per positive pair, sampled so that all distances are about equally likely.
    DistanceWeighted,
    /// All of them.
    All,
}

impl Default for Margin {
    fn default() -> Self {
        Self { margin: 0.2, beta: 1.2, learn_beta: LearnBeta::None, sampling: TripletSampling::DistanceWeighted }
    }
}

impl Margin {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (d, pairs) = (reference::distances(batch), batch.pair_masks());
        let mut weights = all_triplets(&pairs) * triplet_weights(batch);
        if self.sampling == TripletSampling::DistanceWeighted {
            let uniform = Tensor::rand(d.size(), (Kind::Float, d.device())).to_kind(d.kind());
            let sampled = sample_negatives(&d.detach(), &pairs.negative, &uniform, batch.embeddings.size()[1]);
            weights = weights * one_hot(&sampled.columns, batch.size()) * sampled.exists.unsqueeze(2);
        }
        let beta = match self.learn_beta {
            LearnBeta::None => Tensor::full([1, 1], self.beta, batch.options()),
            LearnBeta::Global => batch.tensors.get("beta").view([1, 1]),
            LearnBeta::Class => batch.tensors.get("beta").index_select(0, batch.labels).unsqueeze(1),
        };
        let pull = (self.margin + &d - &beta).relu().unsqueeze(2);
        let push = (self.margin + beta - d).relu().unsqueeze(1);
        let not_zero_terms = (pull.sign() + push.sign()) * &weights;
        ((pull + push) * weights).sum(None) / not_zero(&not_zero_terms.sum(None))
    }
}

impl Loss for Margin {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let kind = embeddings.points.kind();
        let pairs = batch.pair_masks();
        let distances = Distances::of(&embeddings.points);
        let triplets = Triplets::of(&pairs, embeddings.weights(batch).as_ref(), kind);
        let (as_positive, as_negative) = match self.sampling {
            TripletSampling::All => all_counts(&triplets),
            TripletSampling::DistanceWeighted => {
                // In f32 in every precision and one per pair, not per slot, so that the draws are always the same.
                let uniform = Tensor::rand(distances.values.size(), (Kind::Float, distances.values.device()));
                let uniform = triplets.of_slots(&uniform).to_kind(kind);
                let dimensions = embeddings.points.size()[1];
                let sampled = sample_negatives(&distances.values, &pairs.negative, &uniform, dimensions);
                sampled_counts(&triplets, &sampled)
            }
        };

        let boundary = match self.learn_beta {
            LearnBeta::None => Tensor::full([1, 1], self.beta, (kind, embeddings.points.device())),
            LearnBeta::Global => batch.tensors.get("beta").detach().to_kind(kind).view([1, 1]),
            LearnBeta::Class => {
                batch.tensors.get("beta").detach().to_kind(kind).index_select(0, batch.labels).unsqueeze(1)
            }
        };
        let beyond = &distances.values - boundary;
        let pull = triplets.of_slots(&beyond) + self.margin;
        let push = self.margin - beyond;
        let pulled = pull.relu().sign_() * as_positive;
        let pushed = push.relu().sign_() * as_negative;
        let total = not_zero(&(pulled.sum(None) + pushed.sum(None)));
        let value = ((pull * &pulled).sum(None) + (push * &pushed).sum(None)) / &total;
        let grad = triplets.grad(&pulled, &pushed) / &total;
        log.scalar("active_weight", || total);

        let gradient = gradient_of_squared_distances(&embeddings.points, &distances.grad_of_squared(&grad));
        // ∂L/∂β is minus the sum over the distances of the anchors it belongs to.
        let by_boundary = -grad.sum_dim_intlist(1, false, None);
        let by_beta = match self.learn_beta {
            LearnBeta::None => return embeddings.loss(&value, &gradient),
            LearnBeta::Global => by_boundary.sum_dim_intlist(0, true, None),
            LearnBeta::Class => {
                let classes = batch.tensors.get("beta").size()[0];
                one_hot(batch.labels, classes).to_kind(kind).tr().mv(&by_boundary)
            }
        };
        embeddings.loss_with(&value, &gradient, batch.tensors.get("beta"), &by_beta)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let size = match self.learn_beta {
            LearnBeta::None => return Vec::new(),
            LearnBeta::Global => 1,
            LearnBeta::Class => shape.classes,
        };
        vec![TensorSpec::trainable("beta", [size], Init::Constant(self.beta))]
    }

    fn check(&self) -> Result<()> {
        not_negative("margin", self.margin)?;
        finite("beta", self.beta)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let usual = "use `beta = 1.2` with `margin = 0.2`";
        let mut advice = Vec::new();
        let fixed = self.learn_beta == LearnBeta::None;
        if fixed && self.beta + self.margin <= 0.0 {
            let message = format!("negatives never repel: no distance is below `beta + margin`; {usual}");
            advice.push(Advice::new("beta", message));
        }
        if fixed && self.beta - self.margin >= 2.0 {
            let message = format!(
                "positives never attract: distances of unit vectors are at most 2, and none is above \
                 `beta - margin`; {usual}"
            );
            advice.push(Advice::new("beta", message));
        }
        if !fixed && !(0.0..=2.0).contains(&self.beta) {
            let message = format!(
                "the learned boundary starts at {}, but distances of unit vectors are between 0 and 2; start at 1.2",
                self.beta
            );
            advice.push(Advice::new("beta", message));
        }
        advice
    }
}

/// How often each slot is a positive pair and each pair a negative pair, over all triplets.
fn all_counts(triplets: &Triplets) -> (Tensor, Tensor) {
    let Triplets { ap, an, .. } = triplets;
    (ap * an.sum_dim_intlist(1, true, None), an * ap.sum_dim_intlist(1, true, None))
}

/// The same over the triplets of each slot and its sampled negative.
fn sampled_counts(triplets: &Triplets, sampled: &SampledNegatives) -> (Tensor, Tensor) {
    let Triplets { ap, an, .. } = triplets;
    let as_positive = ap * an.gather(1, &sampled.columns, false) * &sampled.exists;
    // Not a scatter: on a GPU its sums depend on the order of the threads.
    let hits = one_hot(&sampled.columns, an.size()[1]).to_kind(as_positive.kind());
    let as_negative = as_positive.unsqueeze(1).bmm(&hits).squeeze_dim(1);
    (as_positive, as_negative)
}

register_loss!("margin", Margin, "margin loss with distance-weighted sampling and a learnable boundary");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_positive_pair_has_one_negative_if_any_can_be_sampled() {
        let same = |row: &[bool]| Tensor::from_slice(row).unsqueeze(0).repeat([6, 1]);
        let (positive, negative) =
            (same(&[true, false, true, true, false, false]), same(&[false, true, false, false, true, true]));
        let triplets = Triplets::of(&PairMasks { positive, negative: negative.shallow_clone() }, None, Kind::Double);
        for (distance, negatives) in [(0.8, 3.0), (1.5, 0.0)] {
            let distances = Tensor::full([6, 6], distance, (Kind::Double, Device::Cpu));
            let uniform = triplets.of_slots(&Tensor::rand([6, 6], (Kind::Double, Device::Cpu)));
            let sampled = sample_negatives(&distances, &negative, &uniform, 8);
            let (as_positive, as_negative) = sampled_counts(&triplets, &sampled);
            assert_eq!(as_positive, &triplets.ap * (negatives / 3.0));
            let rows = Vec::<f64>::try_from(as_negative.sum_dim_intlist(1, false, None)).unwrap();
            assert_eq!(rows, [negatives; 6]);
        }
    }
}
