//! `uniform`: every sample has the same weight.

use curricle_sdk::prelude::*;

/// All weights stay 1: training without a weight scheme.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Uniform {}

impl WeightScheme for Uniform {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        Ok(WeightUpdate { weights: vec![1.0; round.labels.len()], ..WeightUpdate::default() })
    }

    fn needs_embeddings(&self) -> bool {
        false
    }

    fn is_uniform(&self) -> bool {
        true
    }
}

register_weights!("uniform", Uniform, "every sample has the same weight");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balanced::tests::round;

    #[test]
    fn all_weights_are_one() {
        let update = Uniform {}.update(&round(None, &[0, 1, 1], &[0.5; 3], &Tensors::default())).unwrap();
        assert_eq!(update.weights, [1.0; 3]);
    }
}
