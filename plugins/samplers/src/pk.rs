//! `pk`: batches of P classes with K samples each, the usual sampler in metric learning.
//!
//! Pair-based losses need several samples of a class in a batch; random batches from a hundred classes
//! would have hardly any.

use crate::shuffled_pool::ShuffledPool;
use curricle_sdk::prelude::*;
use std::collections::BTreeMap;

/// P classes with K samples each.
///
/// An epoch has ⌈N/(P·K)⌉ batches. Classes are drawn from a shuffled pool: no class appears twice in
/// a batch, and the counts of any two classes in an epoch differ by at most one, so every class appears
/// if the epoch is long enough. The samples of a class are drawn from a separate shuffled pool: all
/// are drawn before one is repeated.
///
/// - A class with fewer than K samples is filled up with repeats, as evenly as possible: with three
///   samples and K = 4, one appears twice. Losses do not count a sample and its repeat as a pair.
/// - With fewer than P classes, every batch has all classes and is smaller; an epoch then has more
///   batches.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pk {
    /// Number of classes per batch (P).
    #[schemars(range(min = 1))]
    pub classes: usize,
    /// Number of samples per class in a batch (K).
    #[schemars(range(min = 1))]
    pub per_class: usize,
}

impl Default for Pk {
    fn default() -> Self {
        Self { classes: 16, per_class: 4 }
    }
}

impl Sampler for Pk {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        self.check()?;
        let mut members: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (sample, label) in epoch.labels.iter().enumerate() {
            members.entry(*label).or_default().push(sample as i64);
        }
        let mut samples: Vec<ShuffledPool<i64>> = members.into_values().map(ShuffledPool::new).collect();
        let classes = self.classes.min(samples.len());
        if classes == 0 {
            return Ok(Vec::new());
        }
        let mut class_pool = ShuffledPool::new((0..samples.len()).collect());
        let mut rng = rng::stream(epoch.seed, "sampler pk", epoch.epoch, 0);
        let count = epoch.labels.len().div_ceil(classes.saturating_mul(self.per_class));
        let batches = (0..count).map(|_| {
            let drawn = class_pool.draw(classes, &mut rng);
            drawn.into_iter().flat_map(|class| samples[class].draw(self.per_class, &mut rng)).collect()
        });
        Ok(batches.collect())
    }

    fn batch_size(&self) -> usize {
        self.classes.saturating_mul(self.per_class)
    }

    fn check(&self) -> Result<()> {
        for (path, value) in [("classes", self.classes), ("per_class", self.per_class)] {
            if !(1..=65_536).contains(&value) {
                return Err(Error::setting(path, format!("must be between 1 and 65536, is {value}")));
            }
        }
        Ok(())
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        let mut advice = Vec::new();
        let sizes: Vec<usize> = data.class_sizes.iter().copied().filter(|size| *size > 0).collect();
        if sizes.is_empty() {
            // The data has not been read, so its classes are unknown.
            return advice;
        }
        let small = sizes.iter().filter(|size| **size < self.per_class).count();
        if self.classes > sizes.len() {
            advice.push(Advice::new(
                "classes",
                format!(
                    "there are only {} training classes, so batches will have {} samples instead of {}; choose at most {}",
                    sizes.len(),
                    sizes.len() * self.per_class,
                    self.batch_size(),
                    sizes.len()
                ),
            ));
        }
        if self.classes == 1 {
            advice.push(Advice::new(
                "classes",
                "batches of one class have no negative pairs, so most losses push nothing apart; choose at least 2",
            ));
        }
        if self.per_class == 1 {
            advice.push(Advice::new("per_class", "with one sample per class there are no positive pairs, so pair-based losses pull nothing together; choose at least 2"));
        }
        if small * 2 > sizes.len() {
            advice.push(Advice::new(
                "per_class",
                format!(
                    "{small} of {} training classes have fewer than {} samples, so most batches repeat samples, which adds no pairs; choose a smaller value",
                    sizes.len(),
                    self.per_class
                ),
            ));
        }
        advice
    }
}

register_sampler!("pk", Pk, "batches of P classes with K samples each");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn labels(sizes: &[usize]) -> Vec<i64> {
        sizes.iter().enumerate().flat_map(|(class, size)| std::iter::repeat_n(class as i64, *size)).collect()
    }

    fn batches(sampler: &Pk, labels: &[i64], epoch: u64) -> Vec<Vec<i64>> {
        sampler.batches(&Epoch { labels, seed: 3, epoch }).unwrap()
    }

    /// Largest difference in how often any two of these numbers appear.
    fn spread(drawn: &[i64], among: &[i64]) -> usize {
        let counts: Vec<_> = among.iter().map(|a| drawn.iter().filter(|d| *d == a).count()).collect();
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }

    proptest! {
        #[test]
        fn batches_have_p_classes_of_k_samples(
            sizes in prop::collection::vec(1usize..9, 1..30),
            classes in 1usize..12,
            per_class in 1usize..6,
        ) {
            let labels = labels(&sizes);
            let batches = batches(&Pk { classes, per_class }, &labels, 0);
            let present = classes.min(sizes.len());
            prop_assert_eq!(batches.len(), labels.len().div_ceil(present * per_class));
            for batch in &batches {
                let of: Vec<i64> = batch.iter().map(|s| labels[*s as usize]).collect();
                let distinct: BTreeSet<i64> = of.iter().copied().collect();
                prop_assert_eq!(distinct.len(), present);
                for class in distinct {
                    let drawn: Vec<i64> = batch.iter().copied().filter(|s| labels[*s as usize] == class).collect();
                    let members: Vec<i64> = (0..labels.len() as i64).filter(|s| labels[*s as usize] == class).collect();
                    prop_assert_eq!(drawn.len(), per_class);
                    prop_assert!(spread(&drawn, &members) <= 1);
                }
            }
        }

        #[test]
        fn an_epoch_covers_classes_and_the_samples_of_a_class_evenly(
            sizes in prop::collection::vec(1usize..9, 1..30),
            classes in 1usize..12,
            per_class in 1usize..6,
        ) {
            let labels = labels(&sizes);
            let batches = batches(&Pk { classes, per_class }, &labels, 5);
            let drawn: Vec<i64> = batches.concat();
            let of: Vec<i64> = drawn.iter().map(|s| labels[*s as usize]).collect();
            let all: Vec<i64> = (0..sizes.len() as i64).collect();
            prop_assert!(spread(&of, &all) <= per_class);
            if batches.len() * classes.min(sizes.len()) >= sizes.len() {
                prop_assert_eq!(of.iter().collect::<BTreeSet<_>>().len(), sizes.len());
            }
            for class in all {
                let members: Vec<i64> = (0..labels.len() as i64).filter(|s| labels[*s as usize] == class).collect();
                prop_assert!(spread(&drawn, &members) <= 1);
            }
        }
    }

    #[test]
    fn batches_depend_on_seed_and_epoch_only() {
        let labels = labels(&[7; 20]);
        let sampler = Pk { classes: 5, per_class: 3 };
        assert_eq!(batches(&sampler, &labels, 1), batches(&sampler, &labels, 1));
        assert_ne!(batches(&sampler, &labels, 1), batches(&sampler, &labels, 2));
        assert_ne!(
            batches(&sampler, &labels, 1),
            sampler.batches(&Epoch { labels: &labels, seed: 4, epoch: 1 }).unwrap()
        );
    }

    #[test]
    fn classes_without_samples_are_skipped() {
        let drawn = batches(&Pk { classes: 4, per_class: 2 }, &[0, 0, 5, 5], 0);
        assert_eq!(drawn.len(), 1);
        assert_eq!(drawn[0].iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2, 3]));
    }

    #[test]
    fn an_empty_training_set_gives_no_batches_and_zero_samples_per_class_are_refused() {
        assert!(batches(&Pk::default(), &[], 0).is_empty());
        let message = Pk { classes: 4, per_class: 0 }.check().unwrap_err().to_string();
        assert_eq!(message, "setting `per_class`: must be between 1 and 65536, is 0");
    }

    #[test]
    fn advice_names_the_setting_and_the_reason() {
        let advice = |sampler: Pk, class_sizes: &[usize]| {
            let facts = DataFacts { class_sizes, embedding_size: 64, batch_size: 64 };
            sampler.advice(&facts).into_iter().map(|a| (a.path, a.message)).collect::<Vec<_>>()
        };
        assert!(advice(Pk::default(), &[40; 50]).is_empty());
        assert!(advice(Pk::default(), &[]).is_empty(), "unknown classes are not few classes");
        let few = advice(Pk::default(), &[40; 10]);
        assert_eq!(few.len(), 1);
        assert_eq!(few[0].0, "classes");
        assert!(few[0].1.contains("only 10 training classes"), "{}", few[0].1);
        let small = advice(Pk::default(), &[3, 3, 3, 40, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 40]);
        assert_eq!(small.len(), 1);
        assert!(small[0].1.starts_with("15 of 17 training classes have fewer than 4 samples"), "{}", small[0].1);
        assert_eq!(advice(Pk { classes: 1, per_class: 1 }, &[40; 10]).len(), 2);
    }
}
