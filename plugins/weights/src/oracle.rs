//! `oracle`: weight 0 for every sample whose label the noise changed.
//!
//! The upper bound of all weightings: it knows what no method can know of real data. Unlike
//! `noise.remove_flipped` it keeps the samples in the batches, so that steps and sampler are those of
//! the other schemes.

use crate::classes::Classes;
use curricle_sdk::prelude::*;

/// Weights from the known flips.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Oracle {}

impl WeightScheme for Oracle {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let flipped = round.flipped.ok_or_else(|| {
            Error::other(
                "needs label noise whose flips are known, but the recipe injects none; add `[noise]`, or use `uniform`",
            )
        })?;
        let weights: Vec<f64> = flipped.iter().map(|&flipped| if flipped { 0.0 } else { 1.0 }).collect();
        let (maw, sdaw) = Classes::new(round.labels).maw_sdaw(&weights);
        let scalars = vec![("maw".to_string(), maw), ("sdaw".to_string(), sdaw)];
        Ok(WeightUpdate { weights, scalars, columns: Vec::new() })
    }

    fn before_training(&self) -> bool {
        true
    }

    fn needs_embeddings(&self) -> bool {
        false
    }

    fn needs_flips(&self) -> bool {
        true
    }
}

register_weights!("oracle", Oracle, "weight 0 for the known flips: the upper bound of every weighting");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balanced::tests::round;

    #[test]
    fn exactly_the_flipped_samples_are_left_out_from_the_start() {
        let tensors = Tensors::default();
        let known = Round { flipped: Some(&[false, true, false]), ..round(None, &[0, 1, 1], &[1.0; 3], &tensors) };
        assert_eq!(Oracle {}.update(&known).unwrap().weights, [1.0, 0.0, 1.0]);
        assert!(Oracle {}.before_training());
    }

    #[test]
    fn unknown_flips_are_refused() {
        let tensors = Tensors::default();
        let message = Oracle {}.update(&round(None, &[0, 1], &[1.0; 2], &tensors)).unwrap_err().to_string();
        assert!(message.contains("add `[noise]`"), "{message}");
    }
}
