//! Contrastive loss (Hadsell et al., CVPR 2006).

use crate::distances::Distances;
use crate::embeddings::Embeddings;
use crate::finite;
use crate::masks::Masks;
use crate::means::{mean_of_active, pair_weights};
use curricle_sdk::prelude::*;

/// Contrastive loss on all pairs of the batch.
///
/// On cosine similarity: the mean of `relu(m⁺ - S)` over the positive pairs where it is not 0,
/// plus the mean of `relu(S - m⁻)` over the negative pairs where it is not 0. On Euclidean
/// distance `relu(D - m⁺)` and `relu(m⁻ - D)`. Not squared. A pair counts with `w_i w_j`.
///
/// The same as `ContrastiveLoss` of pytorch-metric-learning with `CosineSimilarity` or
/// `LpDistance`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Contrastive {
    /// Where positive pairs are close enough, m⁺. Default: 1 for `cosine`, 0 for `euclidean`.
    pub pos_margin: Option<f64>,
    /// Where negative pairs are far enough, m⁻. Default: 0 for `cosine`, 1 for `euclidean`.
    pub neg_margin: Option<f64>,
    /// What the margins are measured in.
    pub distance: Distance,
}

/// How the closeness of a pair is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// Cosine similarity, from -1 to 1.
    Cosine,
    /// Euclidean distance, from 0 to 2.
    Euclidean,
}

impl Default for Contrastive {
    fn default() -> Self {
        Self { pos_margin: None, neg_margin: None, distance: Distance::Cosine }
    }
}

impl Contrastive {
    /// The margins m⁺ and m⁻ in use.
    fn margins(&self) -> (f64, f64) {
        let (positive, negative) = match self.distance {
            Distance::Cosine => (1.0, 0.0),
            Distance::Euclidean => (0.0, 1.0),
        };
        (self.pos_margin.unwrap_or(positive), self.neg_margin.unwrap_or(negative))
    }
}

impl Loss for Contrastive {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let (positive, negative) = Masks::of(batch).to_kind(embeddings.points.kind());
        let weights = embeddings.weights(batch).map(|w| pair_weights(&w));
        let (pos_margin, neg_margin) = self.margins();
        let pull = |gap: Tensor| mean_of_active(&gap, &positive, weights.as_ref());
        let push = |gap: Tensor| mean_of_active(&gap, &negative, weights.as_ref());
        let (pull, push, loss) = match self.distance {
            Distance::Cosine => {
                let similarities = embeddings.similarities();
                let (pull, pull_slope) = pull(pos_margin - &similarities);
                let (push, push_slope) = push(&similarities - neg_margin);
                let loss = embeddings.loss_of_similarities(&(&pull + &push), &(push_slope - pull_slope));
                (pull, push, loss)
            }
            Distance::Euclidean => {
                let distances = Distances::of(&embeddings.points);
                let (pull, pull_slope) = pull(&distances.plain - pos_margin);
                let (push, push_slope) = push(neg_margin - &distances.plain);
                let slope = distances.slope_of_squared(&(pull_slope - push_slope));
                let loss = embeddings.loss_of_squared_distances(&(&pull + &push), &slope);
                (pull, push, loss)
            }
        };
        log.scalar("positive_gap", || pull);
        log.scalar("negative_gap", || push);
        Ok(loss)
    }

    fn check(&self) -> Result<()> {
        let (pos_margin, neg_margin) = self.margins();
        finite("pos_margin", pos_margin)?;
        finite("neg_margin", neg_margin)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let (pos_margin, neg_margin) = self.margins();
        let (never_pulls, never_pushes, range, remedy) = match self.distance {
            Distance::Cosine => (
                pos_margin <= -1.0,
                neg_margin >= 1.0,
                "cosine similarities lie between -1 and 1",
                "`pos_margin = 1` and `neg_margin = 0` are usual",
            ),
            Distance::Euclidean => (
                pos_margin >= 2.0,
                neg_margin <= 0.0,
                "distances of unit vectors lie between 0 and 2",
                "`pos_margin = 0` and `neg_margin = 1` are usual",
            ),
        };
        let mut advice = Vec::new();
        if never_pulls {
            advice.push(Advice::new(
                "pos_margin",
                format!("positives never attract with `pos_margin = {pos_margin}`: {range}; {remedy}"),
            ));
        }
        if never_pushes {
            advice.push(Advice::new(
                "neg_margin",
                format!(
                    "negatives never repel with `neg_margin = {neg_margin}`, so everything may collapse into one \
                     point: {range}; {remedy}"
                ),
            ));
        }
        advice
    }
}

register_loss!("contrastive", Contrastive, "contrastive loss on all pairs");
