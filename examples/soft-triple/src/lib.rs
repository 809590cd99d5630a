//! SoftTriple loss (Qian et al., ICCV 2019): several learnable centres per class.
//!
//! `-log softmax_c( λ (S_ic - δ [c = y_i]) )` at `c = y_i`, averaged with the weights `w_i`. The similarity to a class
//! is `S_ic = Σ_k softmax_k(⟨x_i, w_ck⟩ / γ) ⟨x_i, w_ck⟩` over its centres. Without the paper's regulariser, as in
//! pytorch-metric-learning.

use curricle_sdk::prelude::*;

/// Settings of the SoftTriple loss, with the defaults of pytorch-metric-learning.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SoftTriple {
    /// Centres per class K.
    #[schemars(range(min = 1, max = 1000))]
    centers_per_class: i64,
    /// Scale λ of the similarities.
    #[schemars(range(min = 0.0))]
    la: f64,
    /// Temperature γ of the softmax over the centres of a class.
    #[schemars(range(min = 1e-6))]
    gamma: f64,
    /// Margin δ of the right class.
    margin: f64,
}

impl Default for SoftTriple {
    fn default() -> Self {
        Self { centers_per_class: 10, la: 20.0, gamma: 0.1, margin: 0.01 }
    }
}

impl Loss for SoftTriple {
    /// One declared tensor: the optimiser updates it in the parameter group `centers`, so a recipe can set
    /// `groups.centers.lr_scale`.
    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let size = [shape.classes, self.centers_per_class, shape.embedding];
        vec![TensorSpec::trainable("centers", size, Init::Normal { std: 1.0 }).lr_scale(100.0)]
    }

    fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
        let kind = batch.options().0;
        let centers = normalised(&batch.tensors.get("centers").to_kind(kind));
        let (classes, count, size) = centers.size3()?;
        let each = batch.embeddings.to_kind(kind).matmul(&centers.view([classes * count, size]).tr());
        let each = each.view([-1, classes, count]);
        let to_classes = ((&each / self.gamma).softmax(2, kind) * each).sum_dim_intlist(2, false, kind);
        let right = batch.labels.one_hot(classes).to_kind(kind);
        let logits = (to_classes - right * self.margin) * self.la;
        let losses = -logits.log_softmax(1, kind).gather(1, &batch.labels.unsqueeze(1), false).squeeze_dim(1);
        Ok(weighted_mean(&losses, &batch.weights_or_ones()))
    }

    /// Keeps the centres on the unit sphere, so that the learning rate means the same throughout training.
    fn after_step(&self, tensors: &Tensors, _info: &StepInfo) -> Result<()> {
        let centers = tensors.get("centers");
        centers.shallow_clone().copy_(&normalised(centers));
        Ok(())
    }
}

/// Vectors of unit length along the last dimension.
fn normalised(vectors: &Tensor) -> Tensor {
    vectors / vectors.norm_scalaropt_dim(2.0, [-1], true).clamp_min(1e-12)
}

register_loss!("soft_triple_example", SoftTriple, "SoftTriple: several learnable centres per class");
curricle_sdk::export_plugin!();
