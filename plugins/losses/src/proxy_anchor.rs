//! Proxy-Anchor (Kim et al., CVPR 2020).

use crate::embeddings::Embeddings;
use crate::masks::one_hot;
use crate::means::{log_one_plus_sum_exp, not_zero};
use crate::{finite, positive};
use curricle_sdk::prelude::*;

/// Proxy-Anchor loss: every class has a learnable proxy, and every proxy is an anchor.
///
/// `1/|P⁺| Σ_{p∈P⁺} log(1+Σ_{x∈X_p⁺} e^{-α(s(x,p)-δ)}) + 1/C Σ_p log(1+Σ_{x∈X_p⁻} e^{α(s(x,p)+δ)})`
///
/// `s` is the cosine, `X_p⁺` the batch's samples of the proxy's class, `X_p⁻` all others, `P⁺` the
/// proxies whose class is in the batch. A sample's exponential counts with `w_i`; a class of which
/// the batch has only samples of weight 0 is not in `P⁺`.
///
/// The same as `ProxyAnchorLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProxyAnchor {
    /// Sharpness α.
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

/// Added to an exponent whose term does not count: far below all others, and faster than a mask.
const NEVER: f64 = 1e30;

impl Loss for ProxyAnchor {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let proxies = batch.tensors.get("proxies");
        let kind = embeddings.points.kind();
        let raw = proxies.detach().to_kind(kind);
        let classes = raw.size()[0];
        // Lengths divide the `[B, C]` cosines rather than the `[C, D]` proxies: fewer numbers.
        let inverse = raw.norm_scalaropt_dim(2.0, 1, false).clamp_min_(1e-12).reciprocal_();
        let cosines = embeddings.points.mm(&raw.tr()) * &inverse;

        // A sample pulls its own proxy and pushes all others: -α or α, and one exponent for each.
        let own = one_hot(batch.labels, classes).to_kind(kind);
        let sign = &own * (-2.0 * self.alpha) + self.alpha;
        let mut exponents = &cosines * &sign + self.alpha * self.delta;
        let mut present = own.amax(0, false);
        if let Some(weights) = embeddings.weights(batch) {
            // w e^z = e^(z + log w), and log 0 = -∞ takes no part.
            exponents += weights.log().unsqueeze(1);
            present = (&own * weights.sign().unsqueeze(1)).amax(0, false);
        }
        // Both log-sums at once, `[2, B, C]`: own samples first, then the others.
        let left_out = Tensor::stack(&[&own - 1.0, -&own], 0) * NEVER;
        let (sums, shares) = log_one_plus_sum_exp(&(left_out + exponents), 1);
        let sums = sums.sum_dim_intlist([1i64, 2].as_slice(), false, None);
        let in_batch = not_zero(&present.sum(None));
        let (pull, push) = (sums.get(0) / &in_batch, sums.get(1) / classes as f64);
        let slope = (shares.get(0) / in_batch + shares.get(1) / classes as f64) * sign;

        // ∂cos(x, p)/∂p = x/|p| - cos(x, p) p/|p|²: the part of x across the proxy.
        let slope = slope * &inverse;
        let along = (&slope * cosines).sum_dim_intlist(0, false, None) * -inverse;
        let by_embedding = slope.mm(&raw);
        let by_proxy = slope.tr().mm(&embeddings.points).addcmul_(&raw, &along.unsqueeze(1));
        let loss = embeddings.loss_with(&(&pull + &push), &by_embedding, proxies, &by_proxy);
        log.scalar("positive_term", || pull);
        log.scalar("negative_term", || push);
        Ok(loss)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let std = (2.0 / shape.classes.max(1) as f64).sqrt();
        let proxies = TensorSpec::trainable("proxies", [shape.classes, shape.embedding], Init::Normal { std });
        // The authors train proxies a hundred times faster than the network.
        vec![proxies.lr_scale(100.0)]
    }

    fn check(&self) -> Result<()> {
        positive("alpha", self.alpha)?;
        finite("delta", self.delta)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        // The worst pair, of a proxy and a sample on the wrong side, has exponent α(1+δ); a lone
        // one's share of the gradient is 1/(1+e^{-z}).
        let worst = 1.0 / (1.0 + (-self.alpha * (1.0 + self.delta)).exp());
        if worst >= 1e-3 {
            return Vec::new();
        }
        let message = format!(
            "with `delta = {}` and `alpha = {}` even the worst sample hardly moves; 0.1 and 32 are usual",
            self.delta, self.alpha
        );
        vec![Advice::new("delta", message)]
    }
}

register_loss!("proxy_anchor", ProxyAnchor, "one learnable proxy for each class as anchor");
