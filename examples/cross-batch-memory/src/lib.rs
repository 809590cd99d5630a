//! Cross-batch memory (Wang et al., CVPR 2020): contrastive pairs with the embeddings of earlier batches.
//!
//! The last M embeddings are kept without gradient, the current batch included. With the similarities S of the batch to
//! the memory: the mean of `1 - S` over positive pairs, plus the mean of `relu(S - m)` over the negative pairs
//! where it is not 0. A pair counts with `w_i w_j`.

use curricle_sdk::prelude::*;

/// Settings of the loss.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct CrossBatchMemory {
    /// Number M of embeddings in the memory.
    #[schemars(range(min = 1, max = 10_000_000))]
    size: i64,
    /// Similarity m below which a negative pair has no loss.
    #[schemars(range(min = -1.0, max = 1.0))]
    margin: f64,
}

impl Default for CrossBatchMemory {
    fn default() -> Self {
        Self { size: 1024, margin: 0.5 }
    }
}

impl Loss for CrossBatchMemory {
    /// State, not trainable: a ring buffer and the position to write next. Empty rows have the label -1.
    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        vec![
            TensorSpec::state("memory", [self.size, shape.embedding], Init::Constant(0.0)),
            TensorSpec::state("memory_weights", [self.size], Init::Constant(0.0)),
            TensorSpec::state("memory_labels", [self.size], Init::Constant(-1.0)).kind(Kind::Int64),
            TensorSpec::state("memory_ids", [self.size], Init::Constant(-1.0)).kind(Kind::Int64),
            TensorSpec::state("next", [1], Init::Constant(0.0)).kind(Kind::Int64),
        ]
    }

    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        self.remember(batch)?;
        let (kind, state) = (batch.options().0, |name| batch.tensors.get(name).detach());
        let s = batch.embeddings.to_kind(kind).matmul(&state("memory").to_kind(kind).tr());
        let (labels, ids) = (state("memory_labels"), state("memory_ids"));
        let same_class = batch.labels.unsqueeze(1).eq_tensor(&labels);
        let positive = same_class.logical_and(&batch.ids.unsqueeze(1).ne_tensor(&ids));
        let negative = same_class.logical_not().logical_and(&labels.ge(0));
        let w = batch.weights_or_ones().unsqueeze(1) * state("memory_weights").to_kind(kind);

        let (attract, repel) = ((-&s + 1.0).relu(), (&s - self.margin).relu());
        let active = |gap: &Tensor, pairs: &Tensor| gap.detach().sign() * pairs.to_kind(kind) * &w;
        log.scalar("filled", || labels.ge(0).sum(Kind::Float));
        log.per_sample("nearest_negative", &s.masked_fill(&negative.logical_not(), -1.0).amax([1], false));
        Ok(weighted_mean(&attract, &active(&attract, &positive)) + weighted_mean(&repel, &active(&repel, &negative)))
    }

    /// The memory is a constant, though it holds the current batch too.
    fn gradient_is_exact(&self) -> bool {
        false
    }
}

impl CrossBatchMemory {
    /// Writes the batch over the oldest rows, in place and without gradients: that is all it takes to be checkpointed.
    fn remember(&self, batch: &Batch) -> Result<()> {
        if batch.size() > self.size {
            return Err(Error::setting("size", format!("must be at least the batch size, {}", batch.size())));
        }
        tch::no_grad(|| {
            let next = batch.tensors.get("next");
            let rows = (Tensor::arange(batch.size(), (Kind::Int64, batch.labels.device())) + next).remainder(self.size);
            let write = |name: &str, values: &Tensor| {
                let memory = batch.tensors.get(name);
                memory.shallow_clone().f_index_copy_(0, &rows, &values.to_kind(memory.kind()))
            };
            write("memory", batch.embeddings)?;
            write("memory_weights", &batch.weights_or_ones())?;
            write("memory_labels", batch.labels)?;
            write("memory_ids", batch.ids)?;
            next.shallow_clone().copy_(&(next + batch.size()).remainder(self.size));
            Ok(())
        })
    }
}

register_loss!("cross_batch_memory", CrossBatchMemory, "contrastive loss with the embeddings of earlier batches");
curricle_sdk::export_plugin!();
