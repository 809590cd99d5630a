//! `random`: the shuffled training set, split into batches.
//!
//! For losses that compare samples with proxies rather than with each other.

use curricle_sdk::prelude::*;
use curricle_sdk::rand::seq::SliceRandom;

/// Shuffled batches: an epoch has ⌈N/size⌉ batches and contains every sample exactly once.
/// If N is not a multiple of the size, all batches are slightly smaller rather than the last one tiny,
/// because batch statistics of a few samples are poor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Random {
    /// Maximum batch size.
    #[schemars(range(min = 1))]
    pub size: usize,
}

impl Default for Random {
    fn default() -> Self {
        Self { size: 64 }
    }
}

impl Sampler for Random {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        self.check()?;
        let mut order: Vec<i64> = (0..epoch.labels.len() as i64).collect();
        order.shuffle(&mut rng::stream(epoch.seed, "sampler random", epoch.epoch, 0));
        let count = order.len().div_ceil(self.size);
        Ok((0..count).map(|b| order[b * order.len() / count..(b + 1) * order.len() / count].to_vec()).collect())
    }

    fn batch_size(&self) -> usize {
        self.size
    }

    fn check(&self) -> Result<()> {
        match self.size {
            0 => Err(Error::setting("size", "must be at least 1")),
            _ => Ok(()),
        }
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        // Positive pairs of a random batch: each of the B(B-1)/2 pairs is positive with probability
        // Σ (N^c/N)².
        let samples: usize = data.class_sizes.iter().sum();
        let same: f64 = data.class_sizes.iter().map(|n| (*n as f64 / samples.max(1) as f64).powi(2)).sum();
        let pairs = same * self.size as f64 * (self.size as f64 - 1.0) / 2.0;
        if samples == 0 || pairs * 4.0 >= self.size as f64 {
            return Vec::new();
        }
        let message = format!(
            "batches of {} random samples have about {pairs:.0} positive pairs, so pair-based losses learn little from them; use the sampler `pk` unless the loss has proxies",
            self.size
        );
        vec![Advice::new("size", message)]
    }
}

register_sampler!("random", Random, "the shuffled training set, split into batches");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_epoch_has_every_sample_once_in_batches_of_even_size(samples in 0usize..200, size in 1usize..70) {
            let labels = vec![0; samples];
            let batches = Random { size }.batches(&Epoch { labels: &labels, seed: 1, epoch: 2 }).unwrap();
            prop_assert_eq!(batches.len(), samples.div_ceil(size));
            let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
            prop_assert!(sizes.iter().all(|s| *s <= size && s + 1 >= sizes[0]));
            let mut all = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..samples as i64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn random_batches_depend_on_seed_and_epoch() {
        let labels = vec![0; 100];
        let first = |seed, epoch| Random::default().batches(&Epoch { labels: &labels, seed, epoch }).unwrap().remove(0);
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }

    #[test]
    fn batches_with_few_positive_pairs_are_warned_about() {
        let advice = |class_sizes: &[usize]| {
            Random::default().advice(&DataFacts { class_sizes, embedding_size: 64, batch_size: 64 })
        };
        assert!(advice(&[50; 4]).is_empty());
        assert!(advice(&[5; 1000])[0].message.contains("about 2 positive pairs"));
    }
}
