//! Losses on a batch of embeddings.

use crate::{Advice, DataFacts, Log, Result, Shape, StepInfo, TensorSpec, Tensors};
use tch::{Kind, Tensor};

/// A batch as losses and weight schemes see it. All tensors are on one device.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Unit-norm embeddings `[B, D]`, in f32 or f64.
    pub embeddings: &'a Tensor,
    /// Class of each row `[B]`, i64, from 0 to C-1.
    pub labels: &'a Tensor,
    /// Training sample of each row `[B]`, i64. A sample may be in a batch twice.
    pub ids: &'a Tensor,
    /// Weight of each row `[B]` in [0, 1], in the precision of the embeddings; `None` if all are 1.
    pub weights: Option<&'a Tensor>,
    /// The tensors the component declared. In-place changes to those that are not trainable are kept.
    pub tensors: &'a Tensors,
    /// Embeddings `[B, D]` of the same inputs by the moving average of the network, without gradient; `Some` if the
    /// component [needs them](Loss::needs_ema).
    pub ema_embeddings: Option<&'a Tensor>,
    /// Where in training the batch is.
    pub info: StepInfo,
}

/// The positive and negative pairs of a batch, as boolean masks `[B, B]` with one row per anchor.
#[derive(Debug)]
pub struct PairMasks {
    /// Same class, different sample.
    pub positive: Tensor,
    /// Different class.
    pub negative: Tensor,
}

/// The positive and negative pairs of a batch, as 0/1 masks `[B, B]` in a floating-point precision.
#[derive(Debug)]
pub struct Pairs {
    /// Same class, different sample.
    pub positive: Tensor,
    /// Different class.
    pub negative: Tensor,
}

impl PairMasks {
    /// The masks as numbers, 0 or 1.
    pub fn to_kind(&self, kind: Kind) -> Pairs {
        Pairs { positive: self.positive.to_kind(kind), negative: self.negative.to_kind(kind) }
    }
}

impl<'a> Batch<'a> {
    /// A batch without weights, in the first step of training; the other fields are set by
    /// `Batch { weights: Some(&weights), ..Batch::new(…) }`.
    pub fn new(embeddings: &'a Tensor, labels: &'a Tensor, ids: &'a Tensor, tensors: &'a Tensors) -> Self {
        Self { embeddings, labels, ids, weights: None, tensors, ema_embeddings: None, info: StepInfo::default() }
    }

    /// Cosine similarities of all pairs `[B, B]`, in f32 or f64: half precision is too coarse for losses.
    pub fn similarities(&self) -> Tensor {
        let x = self.embeddings.to_kind(self.options().0);
        x.matmul(&x.tr())
    }

    /// The positive and negative pairs, in the precision of the similarities. Two copies of one sample are neither,
    /// and a sample of weight 0 is in no pair.
    pub fn pairs(&self) -> Pairs {
        self.pair_masks().to_kind(self.options().0)
    }

    /// The same as boolean masks.
    pub fn pair_masks(&self) -> PairMasks {
        let same_class = self.labels.unsqueeze(1).eq_tensor(self.labels);
        let other_sample = self.ids.unsqueeze(1).ne_tensor(self.ids);
        let pairs = PairMasks { positive: same_class.logical_and(&other_sample), negative: same_class.logical_not() };
        let Some(weights) = self.weights else { return pairs };
        let present = weights.gt(0.0);
        let both_present = present.unsqueeze(1).logical_and(&present);
        PairMasks {
            positive: pairs.positive.logical_and(&both_present),
            negative: pairs.negative.logical_and(&both_present),
        }
    }

    /// Number of rows.
    pub fn size(&self) -> i64 {
        self.embeddings.size()[0]
    }

    /// The weights `[B]`, all 1 if the batch has none.
    pub fn weights_or_ones(&self) -> Tensor {
        match self.weights {
            Some(weights) => weights.shallow_clone(),
            None => Tensor::ones([self.size()], self.options()),
        }
    }

    /// `w_i w_j` for all pairs `[B, B]`.
    pub fn pair_weights(&self) -> Tensor {
        let weights = self.weights_or_ones();
        weights.unsqueeze(1) * weights
    }

    /// Kind and device for new tensors: f64 for embeddings in f64, else f32.
    pub fn options(&self) -> (Kind, tch::Device) {
        let kind = if self.embeddings.kind() == Kind::Double { Kind::Double } else { Kind::Float };
        (kind, self.embeddings.device())
    }
}

/// A loss on batches of embeddings.
pub trait Loss: Send + Sync {
    /// The loss of one batch, a scalar that gradients flow through.
    ///
    /// Stay on the device of the inputs: no `.double_value()`, no loops over anchors, nothing that waits for the
    /// device. With all weights 1 the result must equal the result without weights, and a sample of weight 0 is
    /// absent: value and gradients equal those of the batch without it. A batch without any pair gives 0, still
    /// connected to the embeddings.
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor>;

    /// The tensors the loss needs, learnable or not, e.g. one proxy per class.
    fn tensors(&self, _shape: &Shape) -> Vec<TensorSpec> {
        Vec::new()
    }

    /// Called once after the tensors were created, and before a checkpoint is restored into them, to give them values
    /// that no [`Init`](crate::Init) describes. The values are written in place and depend on nothing but the arguments.
    fn initialise(&self, _tensors: &Tensors, _shape: &Shape, _seed: u64) -> Result<()> {
        Ok(())
    }

    /// Called after the optimiser's step, without gradients, e.g. to normalise proxies. Changes are made in place.
    fn after_step(&self, _tensors: &Tensors, _info: &StepInfo) -> Result<()> {
        Ok(())
    }

    /// Whether the gradient is the derivative of the value. `false` for losses that treat a part of their formula as
    /// a constant; the conformance suite then does not compare with finite differences.
    fn gradient_is_exact(&self) -> bool {
        true
    }

    /// Whether `forward` reads [`Batch::ema_embeddings`], which costs a second forward pass and needs `train.ema`.
    fn needs_ema(&self) -> bool {
        false
    }

    /// Whether `forward` reads [`Batch::weights`]. Without, the loss works with uniform weights only.
    fn takes_weights(&self) -> bool {
        true
    }

    /// Whether `forward` computes on the host, so that it copies its inputs there and waits for the device.
    fn runs_on_host(&self) -> bool {
        false
    }

    /// Rejects settings that cannot work together. Called once, before anything else.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Warnings about settings that are valid but degenerate.
    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        Vec::new()
    }
}
