//! Normalised softmax (Zhai and Wu, BMVC 2019).

use crate::positive;
use crate::proxies::{Proxies, cross_entropy, reference_cross_entropy};
use curricle_sdk::gradients::Embeddings;
use curricle_sdk::prelude::*;

/// Cross-entropy of the cosines to one learnable proxy per class.
///
/// The mean over the samples of `-log( e^{s(x,p_y)/T} / Σ_c e^{s(x,p_c)/T} )`, with `s` the cosine and
/// `p_y` the proxy of the sample's class; weighted by `w_i`.
///
/// Equals `NormalizedSoftmaxLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NormSoftmax {
    /// Temperature T of the softmax: the smaller, the more the hardest classes count. 0.05 as in the paper.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub temperature: f64,
}

impl Default for NormSoftmax {
    fn default() -> Self {
        Self { temperature: 0.05 }
    }
}

impl NormSoftmax {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        reference_cross_entropy(&(Proxies::reference_cosines(batch) / self.temperature), batch)
    }
}

impl Loss for NormSoftmax {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let proxies = Proxies::of(batch, &embeddings);
        let logits = &proxies.cosines / self.temperature;
        let (value, grad) = cross_entropy(&logits, batch, embeddings.weights(batch), log);
        proxies.loss(&embeddings, &value, &(grad / self.temperature))
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        // As in the authors' code.
        let high = 1.0 / (shape.embedding.max(1) as f64).sqrt();
        vec![TensorSpec::trainable("proxies", [shape.classes, shape.embedding], Init::Uniform { low: -high, high })]
    }

    fn check(&self) -> Result<()> {
        positive("temperature", self.temperature)
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        // Cosines differ by at most 2, so the probability of a class is at most 1/(1 + (C-1) e^{-2/T}).
        let others = data.class_sizes.len().saturating_sub(1) as f64;
        let best = 1.0 / (1.0 + others * (-2.0 / self.temperature).exp());
        if best >= 0.75 {
            return Vec::new();
        }
        let message = format!(
            "with `temperature = {}` and {} classes no probability can exceed {best:.2}, so the loss stays large; use 0.05",
            self.temperature,
            data.class_sizes.len()
        );
        vec![Advice::new("temperature", message)]
    }
}

register_loss!("norm_softmax", NormSoftmax, "softmax over the cosines to one learnable proxy per class");
