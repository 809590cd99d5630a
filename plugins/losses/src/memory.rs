//! Cross-batch memory (XBM; Wang et al., CVPR 2020).

use crate::not_negative;
use curricle_sdk::gradients::{Distances, Embeddings, gradient_of_squared_distances};
use curricle_sdk::mm;
use curricle_sdk::prelude::*;

/// Embeddings of earlier batches that anchors are compared with, too.
///
/// The last `size` embeddings with their labels, ids and weights join the batch as references: every
/// sample of the batch is an anchor, compared with the other samples of the batch and with the stored
/// ones. No gradient flows into stored embeddings. A sample is never a pair with a stored copy of
/// itself, and a sample of weight 0 is stored but absent.
///
/// `CrossBatchMemory` of pytorch-metric-learning excludes only the copy stored in the same step, and
/// passes no gradient to the batch's samples as references; the value is the same otherwise.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CrossBatchMemory {
    /// Number of embeddings M that are stored; 0 turns the memory off. The paper stores up to the whole training set.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub size: i64,
    /// Number of training steps before the memory is filled and used. Embeddings change fast at first; the authors
    /// wait 1000 steps.
    pub warm_up: u64,
}

const EMBEDDINGS: &str = "memory_embeddings";
const LABELS: &str = "memory_labels";
const IDS: &str = "memory_ids";
const WEIGHTS: &str = "memory_weights";
const POSITION: &str = "memory_position";

impl CrossBatchMemory {
    /// The stored batch rows, and where the next one is written. An empty row has weight 0.
    pub(crate) fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        if self.size == 0 {
            return Vec::new();
        }
        vec![
            TensorSpec::state(EMBEDDINGS, [self.size, shape.embedding], Init::Constant(0.0)),
            TensorSpec::state(LABELS, [self.size], Init::Constant(0.0)).kind(Kind::Int64),
            TensorSpec::state(IDS, [self.size], Init::Constant(-1.0)).kind(Kind::Int64),
            TensorSpec::state(WEIGHTS, [self.size], Init::Constant(0.0)),
            TensorSpec::state(POSITION, [1], Init::Constant(0.0)).kind(Kind::Int64),
        ]
    }

    pub(crate) fn check(&self) -> Result<()> {
        not_negative("memory.size", self.size as f64)?;
        if self.size <= 10_000_000 {
            return Ok(());
        }
        Err(Error::setting("memory.size", format!("must be at most 10000000, but is {}", self.size)))
    }

    fn is_used(&self, batch: &Batch) -> bool {
        self.size > 0 && batch.info.global_step >= self.warm_up
    }

    /// What the anchors of a batch are compared with.
    pub(crate) fn references(&self, batch: &Batch) -> References {
        if !self.is_used(batch) {
            return References::of_batch(batch, batch.pair_masks());
        }
        let embeddings = Embeddings::of(batch);
        let kind = embeddings.points.kind();
        let stored = |name: &str| batch.tensors.get(name);
        let own_weights = batch.weights_or_ones().detach().to_kind(kind);
        let join = |own: &Tensor, name: &str| Tensor::cat(&[own, &stored(name).to_kind(own.kind())], 0);
        let weights = join(&own_weights, WEIGHTS);
        let present = own_weights.gt(0.0).unsqueeze(1).logical_and(&weights.gt(0.0));
        let same_class = batch.labels.unsqueeze(1).eq_tensor(&join(batch.labels, LABELS));
        let other_sample = batch.ids.unsqueeze(1).ne_tensor(&join(batch.ids, IDS));
        let pairs = PairMasks {
            positive: same_class.logical_and(&other_sample).logical_and_(&present),
            negative: same_class.logical_not().logical_and_(&present),
        };
        References { points: join(&embeddings.points, EMBEDDINGS), pairs, weights: Some(weights), embeddings }
    }

    /// The references' embeddings `[R, D]` with the batch connected to the network, for the `reference` of a loss.
    pub(crate) fn reference_embeddings(&self, batch: &Batch) -> Tensor {
        let own = batch.embeddings;
        match self.is_used(batch) {
            true => Tensor::cat(&[own, &batch.tensors.get(EMBEDDINGS).to_kind(own.kind())], 0),
            false => own.shallow_clone(),
        }
    }

    /// Writes the batch over the oldest stored rows.
    pub(crate) fn store(&self, batch: &Batch, log: &mut Log) {
        if !self.is_used(batch) {
            return;
        }
        tch::no_grad(|| {
            let position = batch.tensors.get(POSITION);
            // A batch larger than the memory leaves its last rows.
            let count = batch.size().min(self.size);
            let rows = (Tensor::arange(count, (Kind::Int64, position.device())) + position).remainder(self.size);
            let write = |name: &str, values: &Tensor| {
                let stored = batch.tensors.get(name);
                let values = values.detach().narrow(0, batch.size() - count, count).to_kind(stored.kind());
                let _ = stored.shallow_clone().index_copy_(0, &rows, &values);
            };
            write(EMBEDDINGS, batch.embeddings);
            write(LABELS, batch.labels);
            write(IDS, batch.ids);
            write(WEIGHTS, &batch.weights_or_ones());
            let _ = position.shallow_clone().g_add_scalar_(count).remainder_(self.size);
        });
        log.scalar("memory_samples", || batch.tensors.get(WEIGHTS).gt(0.0).sum(Kind::Float));
    }
}

/// What the anchors of a batch are compared with: the R references are the B samples of the batch, then those of the
/// memory.
#[derive(Debug)]
pub(crate) struct References {
    /// The anchors.
    embeddings: Embeddings,
    /// The references' embeddings `[R, D]`, detached.
    points: Tensor,
    /// Which anchors and references form pairs `[B, R]`.
    pub pairs: PairMasks,
    /// The references' weights `[R]`; `None` if all are 1.
    pub weights: Option<Tensor>,
}

impl References {
    /// The batch alone, with the given pairs.
    pub(crate) fn of_batch(batch: &Batch, pairs: PairMasks) -> Self {
        let embeddings = Embeddings::of(batch);
        Self { points: embeddings.points.shallow_clone(), pairs, weights: embeddings.weights(batch), embeddings }
    }

    /// Number of anchors B.
    pub(crate) fn anchors(&self) -> i64 {
        self.embeddings.points.size()[0]
    }

    /// The anchors' weights `[B]`; `None` if all are 1.
    pub(crate) fn anchor_weights(&self) -> Option<Tensor> {
        self.weights.as_ref().map(|weights| weights.narrow(0, 0, self.anchors()))
    }

    /// `w_i w_j` for all pairs `[B, R]`; `None` if all are 1.
    pub(crate) fn pair_weights(&self) -> Option<Tensor> {
        self.weights.as_ref().map(|weights| weights.narrow(0, 0, self.anchors()).unsqueeze(1) * weights)
    }

    /// Cosine similarities of anchors and references `[B, R]`.
    pub(crate) fn similarities(&self) -> Tensor {
        mm(&self.embeddings.points, &self.points.tr())
    }

    /// Euclidean distances of anchors and references `[B, R]`.
    pub(crate) fn distances(&self) -> Distances {
        match self.is_batch() {
            true => Distances::of(&self.points),
            false => Distances::between(&self.embeddings.points, &self.points),
        }
    }

    /// A loss with this value and the gradient `grad` `[B, R]` with respect to the similarities.
    pub(crate) fn loss_of_similarities(&self, value: &Tensor, grad: &Tensor) -> Result<Tensor> {
        if self.is_batch() {
            return self.embeddings.loss_of_similarities(value, grad);
        }
        // A sample of the batch is an anchor and a reference, a stored one only a reference.
        let as_reference = mm(&grad.narrow(1, 0, self.anchors()).tr(), &self.embeddings.points);
        self.embeddings.loss(value, &(mm(grad, &self.points) + as_reference))
    }

    /// A loss with this value and the gradient `grad` `[B, R]` with respect to the squared distances.
    pub(crate) fn loss_of_squared_distances(&self, value: &Tensor, grad: &Tensor) -> Result<Tensor> {
        let anchors = self.anchors();
        let within = grad.narrow(1, 0, anchors);
        let mut gradient = gradient_of_squared_distances(&self.embeddings.points, &within);
        let stored = grad.size()[1] - anchors;
        if stored > 0 {
            // ∂L/∂x_i = 2 Σ_j grad_ij (x_i - r_j).
            let (grad, points) = (grad.narrow(1, anchors, stored), self.points.narrow(0, anchors, stored));
            gradient += (grad.sum_dim_intlist(1, true, None) * &self.embeddings.points - mm(&grad, &points)) * 2.0;
        }
        self.embeddings.loss(value, &gradient)
    }

    fn is_batch(&self) -> bool {
        self.points.size()[0] == self.anchors()
    }
}
