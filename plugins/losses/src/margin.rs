//! Margin loss with distance-weighted sampling (Wu et al., ICCV 2017).

use crate::distances::Distances;
use crate::embeddings::{Embeddings, gradient_of_squared_distances};
use crate::masks::{Masks, one_hot};
use crate::means::not_zero;
use crate::triplets::Triplets;
use crate::{finite, not_negative};
use curricle_sdk::prelude::*;

/// Margin loss: positives nearer than `β - α`, negatives farther than `β + α`.
///
/// `Σ relu(α + D_ap - β) + Σ relu(α + β - D_an)` over the triplets, divided by the number of terms
/// that are not 0. A triplet counts with `w_a w_p w_n`, also in that number.
///
/// `sampling = "distance_weighted"` forms one triplet for every positive pair: its negative is
/// drawn with `P(n|a) ∝ 1/q(max(D_an, 0.5))` among the negatives with `D_an < 1.4`, where
/// `log q(D) = (d-2) log D + (d-3)/2 log(1 - D²/4)` is the density of distances on the sphere. An
/// anchor without such a negative forms no triplet. pytorch-metric-learning's
/// `DistanceWeightedMiner` draws the positives too, with replacement, and normalises by the
/// largest weight of the whole batch, which makes the weights of most anchors underflow to 0; with
/// `sampling = "all"` this is its `MarginLoss`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Margin {
    /// Half the width of the gap between positives and negatives, α.
    #[schemars(range(min = 0.0))]
    pub margin: f64,
    /// The boundary between positives and negatives, β; where it starts if it is learned.
    pub beta: f64,
    /// Whether the boundary is learned, and for what. It then is the tensor `beta`, in the
    /// parameter group `beta`.
    pub learn_beta: LearnBeta,
    /// Which triplets take part.
    pub sampling: Sampling,
}

/// Whether the boundary β is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LearnBeta {
    /// It stays as it is.
    None,
    /// One for all classes.
    Global,
    /// One for each class, that of the anchor.
    Class,
}

/// Which triplets take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// For every positive pair one negative, drawn so that all distances are about equally likely.
    DistanceWeighted,
    /// All of them.
    All,
}

/// Nearer negatives are drawn as if they were this far: the density's inverse explodes there.
const NEAREST: f64 = 0.5;
/// Negatives from here on are not drawn: most of them have no loss.
const FARTHEST: f64 = 1.4;

impl Default for Margin {
    fn default() -> Self {
        Self { margin: 0.2, beta: 1.2, learn_beta: LearnBeta::None, sampling: Sampling::DistanceWeighted }
    }
}

impl Loss for Margin {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let kind = embeddings.points.kind();
        let pairs = Masks::of(batch);
        let distances = Distances::of(&embeddings.points);
        let triplets = Triplets::of(&pairs, embeddings.weights(batch).as_ref(), kind);
        let (as_positive, as_negative) = match self.sampling {
            Sampling::All => all_triplets(&triplets),
            Sampling::DistanceWeighted => {
                // In f32 whatever the precision, and one for every pair whatever the slots, so that
                // the same numbers are drawn.
                let uniform = Tensor::rand(distances.plain.size(), (Kind::Float, distances.plain.device()));
                let uniform = triplets.of_slots(&uniform).to_kind(kind);
                let drawn = draw_negatives(&distances.plain, &pairs.negative, &uniform, embeddings.points.size()[1]);
                sampled_triplets(&triplets, &drawn)
            }
        };

        let boundary = match self.learn_beta {
            LearnBeta::None => Tensor::full([1, 1], self.beta, (kind, embeddings.points.device())),
            LearnBeta::Global => batch.tensors.get("beta").detach().to_kind(kind).view([1, 1]),
            LearnBeta::Class => {
                batch.tensors.get("beta").detach().to_kind(kind).index_select(0, batch.labels).unsqueeze(1)
            }
        };
        let beyond = &distances.plain - boundary;
        let pull = triplets.of_slots(&beyond) + self.margin;
        let push = self.margin - beyond;
        let pulled = pull.relu().sign_() * as_positive;
        let pushed = push.relu().sign_() * as_negative;
        let total = not_zero(&(pulled.sum(None) + pushed.sum(None)));
        let value = ((pull * &pulled).sum(None) + (push * &pushed).sum(None)) / &total;
        let slope = triplets.slope(&pulled, &pushed) / &total;
        log.scalar("active_weight", || total);

        let gradient = gradient_of_squared_distances(&embeddings.points, &distances.slope_of_squared(&slope));
        // A boundary moves against the distances of its anchors.
        let by_boundary = -slope.sum_dim_intlist(1, false, None);
        let by_beta = match self.learn_beta {
            LearnBeta::None => return Ok(embeddings.loss(&value, &gradient)),
            LearnBeta::Global => by_boundary.sum_dim_intlist(0, true, None),
            LearnBeta::Class => {
                let classes = batch.tensors.get("beta").size()[0];
                one_hot(batch.labels, classes).to_kind(kind).tr().mv(&by_boundary)
            }
        };
        Ok(embeddings.loss_with(&value, &gradient, batch.tensors.get("beta"), &by_beta))
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
        let mut advice = Vec::new();
        let fixed = self.learn_beta == LearnBeta::None;
        if fixed && self.beta + self.margin <= 0.0 {
            advice.push(Advice::new(
                "beta",
                "negatives never repel: no distance is below `beta + margin`; `beta = 1.2` with `margin = 0.2` is usual",
            ));
        }
        if fixed && self.beta - self.margin >= 2.0 {
            advice.push(Advice::new(
                "beta",
                "positives never attract: distances of unit vectors are at most 2, and none is above \
                 `beta - margin`; `beta = 1.2` with `margin = 0.2` is usual",
            ));
        }
        if !fixed && !(0.0..=2.0).contains(&self.beta) {
            advice.push(Advice::new(
                "beta",
                format!(
                    "the learned boundary starts at {}, outside the distances of unit vectors, which lie between 0 \
                     and 2; 1.2 is usual",
                    self.beta
                ),
            ));
        }
        advice
    }
}

/// How much each slot counts as a positive pair and each pair as a negative one, over all triplets.
fn all_triplets(triplets: &Triplets) -> (Tensor, Tensor) {
    let Triplets { ap, an, .. } = triplets;
    (ap * an.sum_dim_intlist(1, true, None), an * ap.sum_dim_intlist(1, true, None))
}

/// The same over the triplets of each slot and the negative drawn for it.
fn sampled_triplets(triplets: &Triplets, drawn: &Drawn) -> (Tensor, Tensor) {
    let Triplets { ap, an, .. } = triplets;
    let as_positive = ap * an.gather(1, &drawn.negatives, false) * &drawn.exists;
    // Not a scatter: on a GPU its sums depend on the order in which threads arrive.
    let hits = one_hot(&drawn.negatives, an.size()[1]).to_kind(as_positive.kind());
    let as_negative = as_positive.unsqueeze(1).bmm(&hits).squeeze_dim(1);
    (as_positive, as_negative)
}

/// One negative for every slot of a row.
struct Drawn {
    /// Its column `[B, slots]`, i64.
    negatives: Tensor,
    /// Whether the row has any negative to draw `[B, 1]`.
    exists: Tensor,
}

/// Draws negatives for each anchor, with replacement, by inverting the distribution function at
/// `uniform` `[B, slots]`, numbers from 0 to 1.
fn draw_negatives(distances: &Tensor, negative: &Tensor, uniform: &Tensor, dimensions: i64) -> Drawn {
    let d = dimensions as f64;
    let excluded = distances.ge(FARTHEST).logical_or_(&negative.logical_not());
    let clipped = distances.clamp(NEAREST, FARTHEST);
    let log_inverse_density =
        clipped.log() * (2.0 - d) + ((&clipped * &clipped) * -0.25 + 1.0).log_() * ((3.0 - d) / 2.0);
    let log_weights = log_inverse_density.masked_fill(&excluded, f64::NEG_INFINITY);
    // Each row by its own maximum: by that of the batch whole rows underflow. An empty row has
    // -∞ there, which -∞ minus would turn into NaN.
    let top = log_weights.amax(1, true).clamp_min(f64::from(f32::MIN));
    let cumulative = (log_weights - top).exp_().cumsum(1, None);
    let total = cumulative.narrow(1, distances.size()[1] - 1, 1);
    // Strictly below the total, so that a place with weight is always hit.
    let below = total.nextafter(&total.zeros_like());
    let points = (uniform * &total).minimum(&below);
    let negatives =
        points.searchsorted(&cumulative, false, true, "right", None::<&Tensor>).clamp_max(distances.size()[1] - 1);
    Drawn { negatives, exists: total.gt(0.0) }
}

register_loss!("margin", Margin, "margin loss with distance-weighted sampling and a learnable boundary");

#[cfg(test)]
mod tests {
    use super::*;

    /// Six rows: an anchor of class 0 and negatives at these distances from it.
    fn distances(of_anchor: [f64; 6]) -> (Tensor, Tensor) {
        let row = Tensor::from_slice(&of_anchor).unsqueeze(0);
        let negative = Tensor::from_slice(&[false, true, true, true, true, true]).unsqueeze(0);
        (row.repeat([6, 1]), negative.repeat([6, 1]))
    }

    fn uniform(like: &Tensor) -> Tensor {
        Tensor::rand(like.size(), (like.kind(), Device::Cpu))
    }

    #[test]
    fn negatives_are_drawn_by_the_inverse_density_of_their_distance() {
        let d: f64 = 8.0;
        let places: [f64; 6] = [0.0, 0.3, 0.5, 0.9, 1.3, 1.45];
        let (distances, negative) = distances(places);
        let weight = |place: f64| {
            let place = place.max(0.5);
            place.powf(2.0 - d) * (1.0 - place * place / 4.0).powf((3.0 - d) / 2.0)
        };
        let mut expected: Vec<f64> = places.iter().map(|&place| weight(place)).collect();
        (expected[0], expected[5]) = (0.0, 0.0);
        let total: f64 = expected.iter().sum();

        let rounds = 500;
        let mut hits = Tensor::zeros([6], (Kind::Double, Device::Cpu));
        for _ in 0..rounds {
            let drawn = draw_negatives(&distances, &negative, &uniform(&distances), d as i64);
            hits += drawn.negatives.flatten(0, -1).bincount(None::<&Tensor>, 6);
        }
        let hits = Vec::<f64>::try_from(hits).unwrap();
        let draws = f64::from(rounds * 36);
        for (hit, expected) in hits.iter().zip(expected) {
            let share = expected / total;
            let deviation = (draws * share * (1.0 - share)).sqrt();
            assert!((hit - draws * share).abs() <= 5.0 * deviation, "{hits:?}, expected {}", draws * share);
        }
    }

    #[test]
    fn a_row_of_far_negatives_does_not_underflow_beside_one_of_near_ones() {
        let (near, negative) = distances([0.0, 0.5, 0.6, 0.7, 0.8, 0.9]);
        let (far, _) = distances([0.0, 1.39, 1.39, 1.5, 1.5, 1.5]);
        let both = Tensor::cat(&[near.narrow(0, 0, 3), far.narrow(0, 0, 3)], 0).to_kind(Kind::Float);
        let drawn = draw_negatives(&both, &negative, &uniform(&both), 512);
        assert_eq!(drawn.exists.sum(Kind::Int64).int64_value(&[]), 6);
        let of_far = Vec::<i64>::try_from(drawn.negatives.narrow(0, 3, 3).flatten(0, -1)).unwrap();
        assert!(of_far.iter().all(|n| [1, 2].contains(n)), "{of_far:?}");
    }

    #[test]
    fn a_row_without_near_enough_negatives_forms_no_triplets() {
        let (far, negative) = distances([0.0, 1.4, 1.5, 1.6, 1.7, 1.8]);
        let drawn = draw_negatives(&far, &negative, &uniform(&far), 8);
        assert_eq!(drawn.exists.sum(Kind::Int64).int64_value(&[]), 0);
        let pairs = Masks { positive: negative.logical_not(), negative };
        let triplets = Triplets::of(&pairs, None, Kind::Double);
        let drawn = Drawn { negatives: triplets.of_slots(&drawn.negatives), exists: drawn.exists };
        let (as_positive, as_negative) = sampled_triplets(&triplets, &drawn);
        assert_eq!((as_positive + as_negative).abs().sum(None).double_value(&[]), 0.0);
    }

    #[test]
    fn every_positive_pair_has_one_negative() {
        let (near, negative) = distances([0.0, 0.5, 0.6, 0.7, 0.8, 0.9]);
        let positive = Tensor::from_slice(&[true, false, true, true, false, false]).unsqueeze(0).repeat([6, 1]);
        let triplets = Triplets::of(&Masks { positive, negative: negative.shallow_clone() }, None, Kind::Double);
        let drawn = draw_negatives(&near, &negative, &triplets.of_slots(&uniform(&near)), 8);
        let (as_positive, as_negative) = sampled_triplets(&triplets, &drawn);
        assert_eq!(as_positive, triplets.ap);
        let rows = Vec::<f64>::try_from(as_negative.sum_dim_intlist(1, false, None)).unwrap();
        assert_eq!(rows, [3.0; 6]);
    }
}
