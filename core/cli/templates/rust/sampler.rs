//! The sampler `@name@`: every sample once per epoch, shuffled.

use curricle_sdk::prelude::*;
use curricle_sdk::rand::seq::SliceRandom;

/// The settings in a recipe's `[sampler]`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct @Type@ {
    /// Samples in a batch.
    #[schemars(range(min = 2))]
    size: usize,
}

impl Default for @Type@ {
    fn default() -> Self {
        Self { size: 64 }
    }
}

impl Sampler for @Type@ {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        let mut ids: Vec<i64> = (0..epoch.labels.len() as i64).collect();
        // One stream per epoch, so a resumed run draws the same batches.
        ids.shuffle(&mut rng::stream(epoch.seed, "@name@", epoch.epoch, 0));
        Ok(ids.chunks(self.size).map(<[i64]>::to_vec).collect())
    }

    fn batch_size(&self) -> usize {
        self.size
    }
}

register_sampler!("@name@", @Type@, "every sample once, shuffled");
curricle_sdk::export_plugin!();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_drawn_once() {
        let epoch = Epoch { labels: &[0, 0, 1, 1, 1], seed: 1, epoch: 0 };
        let mut ids = @Type@ { size: 2 }.batches(&epoch).unwrap().concat();
        ids.sort();
        assert_eq!(ids, [0, 1, 2, 3, 4]);
    }
}
