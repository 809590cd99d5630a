//! SoftTriple (Qian et al., ICCV 2019).

use crate::proxies::{Proxies, cross_entropy, reference_cross_entropy};
use crate::triplets::one_hot;
use crate::{finite, positive};
use curricle_sdk::gradients::Embeddings;
use curricle_sdk::prelude::*;

/// Cross-entropy of similarities to classes that have several learnable centres each.
///
/// The similarity to class c is a soft maximum over its K centres,
/// `S_c = Σ_k q_k s(x,p_ck)` with `q_k ∝ e^{s(x,p_ck)/γ}` and `s` the cosine. The loss is the mean over
/// the samples of `-log( e^{λ(S_y-δ)} / (e^{λ(S_y-δ)} + Σ_{c≠y} e^{λ S_c}) )`; weighted by `w_i`.
///
/// Equals `SoftTripleLoss` of pytorch-metric-learning, which has no regulariser that merges centres.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SoftTriple {
    /// Number of centres K of each class.
    #[schemars(range(min = 1, max = 1000))]
    pub centers_per_class: i64,
    /// Scale λ of the similarities in the softmax over classes.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub lambda: f64,
    /// Temperature γ of the soft maximum over the centres of a class: the smaller, the nearer to the maximum.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub gamma: f64,
    /// Margin δ by which the similarity to the sample's class is reduced.
    pub margin: f64,
}

impl Default for SoftTriple {
    fn default() -> Self {
        Self { centers_per_class: 10, lambda: 20.0, gamma: 0.1, margin: 0.01 }
    }
}

impl SoftTriple {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let cosines = Proxies::reference_cosines(batch);
        let share = (&cosines / self.gamma).softmax(2, None);
        let similarities = (share * cosines).sum_dim_intlist(2, false, None);
        reference_cross_entropy(&self.logits(&similarities, batch), batch)
    }

    fn logits(&self, similarities: &Tensor, batch: &Batch) -> Tensor {
        let own = one_hot(batch.labels, similarities.size()[1]).to_kind(similarities.kind());
        (similarities - own * self.margin) * self.lambda
    }
}

impl Loss for SoftTriple {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let proxies = Proxies::of(batch, &embeddings);
        let cosines = proxies.cosines.view([batch.size(), -1, self.centers_per_class]);
        let share = (&cosines / self.gamma).softmax(2, None);
        let similarities = (&share * &cosines).sum_dim_intlist(2, true, None);
        let logits = self.logits(&similarities.squeeze_dim(2), batch);
        let (value, grad) = cross_entropy(&logits, batch, embeddings.weights(batch), log);
        // ∂S_c/∂s_k = q_k (1 + (s_k - S_c)/γ).
        let by_cosine = (cosines - similarities).g_div_scalar_(self.gamma).g_add_scalar_(1.0) * share;
        let grad = by_cosine * (grad * self.lambda).unsqueeze(2);
        proxies.loss(&embeddings, &value, &grad.flatten(1, 2))
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let high = 1.0 / ((shape.classes * self.centers_per_class).max(1) as f64).sqrt();
        let size = [shape.classes, self.centers_per_class, shape.embedding];
        let proxies = TensorSpec::trainable("proxies", size, Init::Uniform { low: -high, high });
        // The authors' code trains the centres with 100 times the learning rate of the network.
        vec![proxies.lr_scale(100.0)]
    }

    fn check(&self) -> Result<()> {
        if !(1..=1000).contains(&self.centers_per_class) {
            let message = format!("must be between 1 and 1000, but is {}", self.centers_per_class);
            return Err(Error::setting("centers_per_class", message));
        }
        positive("lambda", self.lambda)?;
        positive("gamma", self.gamma)?;
        finite("margin", self.margin)
    }
}

register_loss!("soft_triple", SoftTriple, "softmax over classes with several learnable centres each");
