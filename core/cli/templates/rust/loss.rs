//! The loss `@name@`: what it is and who proposed it.
//!
//! `mean_p (1 - S_p) + mean_n relu(S_n - m)` over positive pairs p and negative pairs n; a pair
//! counts with `w_i w_j`.

use curricle_sdk::prelude::*;

/// The settings in a recipe's `[loss]`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct @Type@ {
    /// Margin m: negative pairs that are less similar have no loss.
    #[schemars(range(min = -1.0, max = 1.0))]
    margin: f64,
}

impl Default for @Type@ {
    fn default() -> Self {
        Self { margin: 0.5 }
    }
}

impl Loss for @Type@ {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let (s, pairs, w) = (batch.similarities(), batch.pairs(), batch.pair_weights());
        let attract = weighted_mean(&(1.0 - &s), &(pairs.positive * &w));
        let repel = weighted_mean(&(s - self.margin).relu(), &(pairs.negative * w));
        log.scalar("attract", || attract.shallow_clone());
        Ok(attract + repel)
    }
}

register_loss!("@name@", @Type@, "pulls positive pairs together, pushes close negative pairs apart");
curricle_sdk::export_plugin!();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposite_samples_of_one_class_attract() {
        let embeddings = Tensor::from_slice(&[1.0, 0.0, -1.0, 0.0]).view([2, 2]).set_requires_grad(true);
        let (labels, ids) = (Tensor::from_slice(&[0i64, 0]), Tensor::from_slice(&[0i64, 1]));
        let tensors = Tensors::default();
        let batch = Batch::new(&embeddings, &labels, &ids, &tensors);
        let loss = @Type@::default().forward(&batch, &mut Log::disabled()).unwrap();
        assert_eq!(loss.double_value(&[]), 2.0);
        loss.backward();
        assert!(embeddings.grad().abs().sum(None).double_value(&[]) > 0.0);
    }
}
