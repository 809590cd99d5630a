//! Losses on a batch of embeddings.

use crate::{Advice, DataFacts, Log, Result, Shape, TensorSpec, Tensors};
use tch::{Kind, Tensor};

/// A batch as a loss sees it. All tensors are on one device.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Unit-norm embeddings `[B, D]`, in f32 or f64.
    pub embeddings: &'a Tensor,
    /// Class of each row `[B]`, i64, from 0 to C-1.
    pub labels: &'a Tensor,
    /// Training sample behind each row `[B]`, i64. A sample may stand in a batch twice.
    pub ids: &'a Tensor,
    /// Weight of each row `[B]` in [0, 1], in the precision of the embeddings; `None` if all are 1.
    pub weights: Option<&'a Tensor>,
    /// The tensors the loss declared.
    pub tensors: &'a Tensors,
}

/// Which pairs of a batch are positive and which negative, as 0/1 masks `[B, B]` in the
/// precision of the embeddings.
#[derive(Debug)]
pub struct Pairs {
    /// Same class, different sample.
    pub positive: Tensor,
    /// Different class.
    pub negative: Tensor,
}

impl Batch<'_> {
    /// Cosine similarities of all pairs `[B, B]`.
    pub fn similarities(&self) -> Tensor {
        self.embeddings.matmul(&self.embeddings.tr())
    }

    /// The positive and negative pairs. A sample that stands in the batch twice is neither to
    /// itself.
    pub fn pairs(&self) -> Pairs {
        let kind = self.embeddings.kind();
        let same_class = self.labels.unsqueeze(1).eq_tensor(&self.labels.unsqueeze(0));
        let other_sample = self.ids.unsqueeze(1).ne_tensor(&self.ids.unsqueeze(0));
        Pairs {
            positive: same_class.logical_and(&other_sample).to_kind(kind),
            negative: same_class.logical_not().to_kind(kind),
        }
    }

    /// Number of rows.
    pub fn size(&self) -> i64 {
        self.embeddings.size()[0]
    }

    /// The weights, with 1 for every row where there are none.
    pub fn weights_or_ones(&self) -> Tensor {
        match self.weights {
            Some(weights) => weights.shallow_clone(),
            None => Tensor::ones([self.size()], (self.embeddings.kind(), self.embeddings.device())),
        }
    }

    /// Kind and device for new tensors.
    pub fn options(&self) -> (Kind, tch::Device) {
        (self.embeddings.kind(), self.embeddings.device())
    }
}

/// A loss on batches of embeddings.
pub trait Loss: Send + Sync {
    /// The loss of one batch, a scalar that gradients flow through.
    ///
    /// Everything stays on the device of the inputs: no `.double_value()`, no loops over anchors,
    /// nothing that waits for the device. With all weights 1 the result must equal the one with
    /// no weights. A batch without a single pair gives 0, still connected to the embeddings.
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor>;

    /// Learnable or remembered tensors the loss needs, e.g. one proxy per class.
    fn tensors(&self, _shape: &Shape) -> Vec<TensorSpec> {
        Vec::new()
    }

    /// Refuses settings that cannot be used together. Called once, before anything else.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Settings that are legal but will disappoint.
    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        Vec::new()
    }
}
