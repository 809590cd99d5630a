//! Contrastive loss (Hadsell et al., CVPR 2006).

use crate::memory::CrossBatchMemory;
use crate::{finite, reference};
use curricle_sdk::gradients::mean_of_active;
use curricle_sdk::prelude::*;

/// Contrastive loss on all pairs of the batch, and with a memory on all pairs of the batch with it.
///
/// On cosine similarity: the mean of `relu(m⁺ - S)` over the positive pairs where it is not 0,
/// plus the mean of `relu(S - m⁻)` over the negative pairs where it is not 0. On Euclidean
/// distance `relu(D - m⁺)` and `relu(m⁻ - D)`. Not squared. A pair counts with `w_i w_j`.
///
/// Equals `ContrastiveLoss` of pytorch-metric-learning with `CosineSimilarity` or
/// `LpDistance`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Contrastive {
    /// Positive margin m⁺: closer positive pairs have no loss. Default: 1 for `cosine`, 0 for `euclidean`.
    pub pos_margin: Option<f64>,
    /// Negative margin m⁻: farther negative pairs have no loss. Default: 0 for `cosine`, 1 for `euclidean`.
    pub neg_margin: Option<f64>,
    /// The similarity or distance that the margins apply to.
    pub distance: Distance,
    /// Embeddings of earlier batches that anchors are compared with, too.
    pub memory: CrossBatchMemory,
}

/// The similarity or distance of a pair.
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
        Self { pos_margin: None, neg_margin: None, distance: Distance::Cosine, memory: CrossBatchMemory::default() }
    }
}

impl Contrastive {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (x, others, references) =
            (batch.embeddings, self.memory.reference_embeddings(batch), self.memory.references(batch));
        let pairs = references.pairs.to_kind(batch.options().0);
        let weights = references.pair_weights().unwrap_or_else(|| batch.pair_weights());
        let (pos_margin, neg_margin) = self.margins();
        let (pull, push) = match self.distance {
            Distance::Cosine => {
                let s = x.matmul(&others.tr());
                ((pos_margin - &s).relu(), (s - neg_margin).relu())
            }
            Distance::Euclidean => {
                let d = reference::distances_between(x, &others);
                ((&d - pos_margin).relu(), (neg_margin - d).relu())
            }
        };
        // `sign` is 1 for the pairs that have a loss.
        let mean = |terms: &Tensor, pairs: &Tensor| weighted_mean(terms, &(terms.sign() * pairs * &weights));
        mean(&pull, &pairs.positive) + mean(&push, &pairs.negative)
    }

    /// The margins m⁺ and m⁻.
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
        let references = self.memory.references(batch);
        let pairs = references.pairs.to_kind(batch.options().0);
        let weights = references.pair_weights();
        let (pos_margin, neg_margin) = self.margins();
        let pull = |gap: Tensor| mean_of_active(&gap, &pairs.positive, weights.as_ref());
        let push = |gap: Tensor| mean_of_active(&gap, &pairs.negative, weights.as_ref());
        let (pull, push, loss) = match self.distance {
            Distance::Cosine => {
                let similarities = references.similarities();
                let (pull, pull_grad) = pull(pos_margin - &similarities);
                let (push, push_grad) = push(&similarities - neg_margin);
                let loss = references.loss_of_similarities(&(&pull + &push), &(push_grad - pull_grad));
                (pull, push, loss)
            }
            Distance::Euclidean => {
                let distances = references.distances();
                let (pull, pull_grad) = pull(&distances.values - pos_margin);
                let (push, push_grad) = push(neg_margin - &distances.values);
                let grad = distances.grad_of_squared(&(pull_grad - push_grad));
                let loss = references.loss_of_squared_distances(&(&pull + &push), &grad);
                (pull, push, loss)
            }
        };
        log.scalar("positive_gap", || pull);
        log.scalar("negative_gap", || push);
        self.memory.store(batch, log);
        loss
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        self.memory.tensors(shape)
    }

    fn check(&self) -> Result<()> {
        let (pos_margin, neg_margin) = self.margins();
        finite("pos_margin", pos_margin)?;
        finite("neg_margin", neg_margin)?;
        self.memory.check()
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        let (pos_margin, neg_margin) = self.margins();
        let (never_pulls, never_pushes, range, remedy) = match self.distance {
            Distance::Cosine => (
                pos_margin <= -1.0,
                neg_margin >= 1.0,
                "cosine similarities are between -1 and 1",
                "use `pos_margin = 1` and `neg_margin = 0`",
            ),
            Distance::Euclidean => (
                pos_margin >= 2.0,
                neg_margin <= 0.0,
                "distances of unit vectors are between 0 and 2",
                "use `pos_margin = 0` and `neg_margin = 1`",
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
                    "negatives never repel with `neg_margin = {neg_margin}`, so all embeddings may collapse into one \
                     point: {range}; {remedy}"
                ),
            ));
        }
        advice
    }
}

register_loss!("contrastive", Contrastive, "contrastive loss on all pairs");
