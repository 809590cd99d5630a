//! Proxy-Anchor (Kim et al., CVPR 2020).

use crate::triplets::one_hot;
use crate::{finite, positive};
use curricle_sdk::gradients::{Embeddings, not_zero};
use curricle_sdk::mm;
use curricle_sdk::prelude::*;

/// Proxy-Anchor loss: every class has a learnable proxy, and the proxies are the anchors.
///
/// `1/|P⁺| Σ_{p∈P⁺} log(1+Σ_{x∈X_p⁺} e^{-α(s(x,p)-δ)}) + 1/C Σ_p log(1+Σ_{x∈X_p⁻} e^{α(s(x,p)+δ)})`
///
/// `s` is the cosine, `X_p⁺` the batch's samples of the proxy's class, `X_p⁻` all others, `P⁺` the
/// proxies whose class is in the batch. With weights, a sample's exponentials count with `w_i`, and a
/// class whose samples in the batch all have weight 0 is not in `P⁺`.
///
/// Equals `ProxyAnchorLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyAnchor {
    /// Scale α of the cosines.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Margin δ on the cosine.
    pub delta: f64,
}

impl Default for ProxyAnchor {
    fn default() -> Self {
        Self { alpha: 32.0, delta: 0.1 }
    }
}

/// Subtracted from the exponent of a term that does not count: smaller than all others, and faster than a mask. A
/// power of two, so that sums of it are exact.
const EXCLUDED: f64 = (1u128 << 100) as f64;

impl ProxyAnchor {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let proxies = batch.tensors.get("proxies");
        let classes = proxies.size()[0];
        let unit = proxies / proxies.norm_scalaropt_dim(2.0, 1, true).clamp_min(1e-12);
        let s = batch.embeddings.matmul(&unit.tr());
        let own = one_hot(batch.labels, classes);
        let weights = batch.weights_or_ones().unsqueeze(1);
        let log_sum =
            |z: Tensor, samples: &Tensor| (z.exp() * samples * &weights).sum_dim_intlist(0, false, None).log1p();
        let pull = log_sum((&s - self.delta) * -self.alpha, &own);
        let push = log_sum((s + self.delta) * self.alpha, &own.logical_not());
        let in_batch = (own * weights).sum_dim_intlist(0, false, None).sign();
        weighted_mean(&pull, &in_batch) + push.sum(None) / classes as f64
    }
}

impl Loss for ProxyAnchor {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let proxies = batch.tensors.get("proxies");
        let kind = embeddings.points.kind();
        let raw = proxies.detach().to_kind(kind);
        let classes = raw.size()[0];
        // Norms divide the `[B, C]` cosines rather than the `[C, D]` proxies: fewer elements. z = -α cos.
        let inverse = raw.norm_scalaropt_dim(2.0, 1, false).clamp_min_(1e-12).reciprocal_();
        let scale = &inverse * -self.alpha;
        let z = mm(&embeddings.points, &raw.tr()).g_mul_(&scale);

        // Exponents of both sums, `[2, B + 1, C]`: a sample attracts its own proxy and repels all others. The last row
        // is the 1 of both sums, e^(z+αδ) = 1.
        let labels = batch.labels.unsqueeze(1);
        let own = z.zeros_like().scatter_value_(1, &labels, -EXCLUDED);
        let samples = z.size()[0];
        let exponents = z.new_full([2, samples + 1, classes], -self.alpha * self.delta, (kind, z.device()));
        let mut of_samples = exponents.narrow(1, 0, samples);
        let _ = z.sub_out(&of_samples.get(0), &(&own + EXCLUDED));
        let _ = own.sub_out(&of_samples.get(1), &z);
        let mut present = own.amin(0, false);
        if let Some(weights) = embeddings.weights(batch) {
            // w e^z = e^(z + log w), and log 0 = -∞ adds nothing.
            let weights = weights.unsqueeze(1);
            of_samples += weights.log();
            present = (own * weights.sign()).amin(0, false);
        }
        let in_batch = not_zero(&(present.sum(None) / -EXCLUDED));
        // log(1 + Σ e^(z+αδ)) is minus the log-softmax of the last row. The shares are not its exponentials, because
        // those of excluded terms underflow, which takes libtorch five times as long.
        let sums = exponents.log_softmax(1, None).select(1, samples).sum_dim_intlist(1, false, None).neg_();
        let shares = exponents.softmax(1, None).narrow(1, 0, samples);
        let (pull, push) = (sums.get(0) / &in_batch, sums.get(1) / classes as f64);
        let by_z = shares.get(0) / in_batch - shares.get(1) / classes as f64;

        // ∂cos(x, p)/∂p = x/|p| - cos(x, p) p/|p|².
        let grad = by_z * scale;
        let along = (&grad * z).sum_dim_intlist(0, false, None) * inverse / self.alpha;
        let by_embedding = mm(&grad, &raw);
        let by_proxy = mm(&grad.tr(), &embeddings.points).addcmul_(&raw, &along.unsqueeze(1));
        let loss = embeddings.loss_with(&(&pull + &push), &by_embedding, proxies, &by_proxy)?;
        log.scalar("positive_term", || pull);
        log.scalar("negative_term", || push);
        Ok(loss)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let std = (2.0 / shape.classes.max(1) as f64).sqrt();
        let proxies = TensorSpec::trainable("proxies", [shape.classes, shape.embedding], Init::Normal { std });
        // The learning-rate scale of the authors' code.
        vec![proxies.lr_scale(100.0)]
    }

    fn check(&self) -> Result<()> {
        positive("alpha", self.alpha)?;
        finite("delta", self.delta)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        // The worst sample, opposite to its proxy, has the exponent z = α(1+δ); alone, its gradient is 1/(1+e^{-z}).
        let worst = 1.0 / (1.0 + (-self.alpha * (1.0 + self.delta)).exp());
        if worst >= 1e-3 {
            return Vec::new();
        }
        let message = format!(
            "with `delta = {}` and `alpha = {}` even the worst sample hardly moves; use `delta = 0.1` and `alpha = 32`",
            self.delta, self.alpha
        );
        vec![Advice::new("delta", message)]
    }
}

register_loss!("proxy_anchor", ProxyAnchor, "Proxy-Anchor loss with one learnable proxy per class");
