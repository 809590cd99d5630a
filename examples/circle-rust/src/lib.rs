//! Circle loss (Sun et al., CVPR 2020): the farther a pair's similarity is from its optimum, the
//! larger its weight.
//!
//! The mean over the anchors, weighted by `w_i`, of
//! `softplus( LSE_n[γ α_n (S_in - m)] + LSE_p[-γ α_p (S_ip - 1 + m)] )` with
//! `α_n = relu(S_in + m)` and `α_p = relu(1 + m - S_ip)`, both detached.

use curricle_sdk::prelude::*;

/// Settings of the Circle loss, with the authors' defaults.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Circle {
    /// Relaxation factor m.
    #[schemars(range(min = 0.0, max = 1.0))]
    margin: f64,
    /// Scale factor γ of the similarities.
    #[schemars(range(min = 0.0))]
    gamma: f64,
}

impl Default for Circle {
    fn default() -> Self {
        Self { margin: 0.4, gamma: 80.0 }
    }
}

impl Loss for Circle {
    fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
        let (s, pairs, m) = (batch.similarities(), batch.pairs(), self.margin);
        let alpha_p = (1.0 + m - s.detach()).relu();
        let alpha_n = (s.detach() + m).relu();
        let positive = self.log_sum_exp(alpha_p * (&s - (1.0 - m)) * -self.gamma, &pairs.positive);
        let negative = self.log_sum_exp(alpha_n * (&s - m) * self.gamma, &pairs.negative);
        let each = (positive + negative).softplus();
        Ok(weighted_mean(&each, &batch.weights_or_ones()))
    }
}

impl Circle {
    /// The log-sum-exp over the pairs of each row. A row without pairs is very negative, so that softplus
    /// makes it 0, but not -∞, which would make its gradient NaN.
    fn log_sum_exp(&self, logits: Tensor, pairs: &Tensor) -> Tensor {
        (logits * pairs + (pairs - 1.0) * (1000.0 + 10.0 * self.gamma)).logsumexp(-1, false)
    }
}

register_loss!("circle_rust", Circle, "Circle loss, written in Rust");
curricle_sdk::export_plugin!();
