//! The weight scheme `@name@`: a sample's weight is its similarity to the centre of its class.

use curricle_sdk::prelude::*;

/// The settings in a recipe's `[weights]`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct @Type@ {
    /// Cosine similarity to the centre below which the weight is 0.
    #[schemars(range(min = -1.0, max = 1.0))]
    threshold: f64,
}

impl Default for @Type@ {
    fn default() -> Self {
        Self { threshold: 0.0 }
    }
}

impl WeightScheme for @Type@ {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let x = round.embeddings.ok_or_else(|| Error::other("needs the embeddings"))?;
        let classes = round.labels.iter().max().map_or(0, |most| most + 1);
        let labels = Tensor::from_slice(round.labels).to_device(x.device());
        let sums = Tensor::zeros([classes, x.size()[1]], (x.kind(), x.device())).index_add(0, &labels, x);
        let centres = &sums / sums.norm_scalaropt_dim(2.0, [1], true).clamp_min(1e-12);
        let near = (x * centres.index_select(0, &labels)).sum_dim_intlist([1i64].as_slice(), false, Kind::Double);
        let near: Vec<f64> = Vec::try_from(&near.to_device(Device::Cpu))?;
        let weights = near.iter().map(|&s| if s < self.threshold { 0.0 } else { s.clamp(0.0, 1.0) });
        Ok(WeightUpdate { weights: weights.collect(), columns: vec![("centre".into(), near)], ..Default::default() })
    }
}

register_weights!("@name@", @Type@, "weights by similarity to the class centre");
curricle_sdk::export_plugin!();

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::{LossInfo, serde_json};

    #[test]
    fn a_sample_far_from_its_class_has_a_smaller_weight() {
        let x = Tensor::from_slice(&[1.0f32, 0.0, 1.0, 0.0, 0.0, 1.0]).view([3, 2]);
        let loss = LossInfo { name: "ms", settings: &serde_json::Value::Null };
        let tensors = Tensors::default();
        let round = Round { embeddings: Some(&x), ..Round::new(&[0, 0, 0], &[1.0; 3], &tensors, loss) };
        let weights = @Type@::default().update(&round).unwrap().weights;
        assert!(weights[2] < weights[0], "{weights:?}");
    }
}
