//! `uniform`: in every class the same share of samples is flipped to other classes.
//!
//! In class c, `round(ratio · N^c)` samples, chosen uniformly, get the label of another training
//! class, chosen uniformly.

use super::flips;
use crate::data::Split;
use curricle_sdk::rng::stream;
use rand::RngExt;
use rand::seq::SliceRandom;

/// The noisy labels.
pub(super) fn flip(split: &Split, ratio: f64, seed: u64) -> Vec<i64> {
    let mut labels = split.labels.clone();
    let classes = split.class_names.len() as i64;
    for (class, mut samples) in split.members().into_iter().enumerate() {
        let class = class as i64;
        let mut rng = stream(seed, "noise uniform", class as u64, 0);
        samples.shuffle(&mut rng);
        for sample in &samples[..flips(samples.len(), ratio)] {
            // Skip the sample's own class.
            let other = rng.random_range(0..classes - 1);
            labels[*sample] = other + i64::from(other >= class);
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;
    use proptest::prelude::*;

    fn of_sizes(sizes: &[usize]) -> Split {
        let labels: Vec<i64> =
            sizes.iter().enumerate().flat_map(|(class, size)| std::iter::repeat_n(class as i64, *size)).collect();
        numbered(&labels)
    }

    proptest! {
        #[test]
        fn every_class_loses_its_share_but_never_all_samples(
            sizes in prop::collection::vec(1usize..40, 2..12),
            ratio in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64],
            seed in 0u64..1000,
        ) {
            let split = of_sizes(&sizes);
            let noisy = flip(&split, ratio, seed);
            prop_assert_eq!(&noisy, &flip(&split, ratio, seed));
            for (class, size) in sizes.iter().enumerate() {
                let lost = (0..split.len()).filter(|s| split.labels[*s] == class as i64 && noisy[*s] != class as i64).count();
                let share = (ratio * *size as f64).round() as usize;
                let expected = if ratio == 0.0 || *size == 1 { 0 } else { share.max(1).min(size - 1) };
                prop_assert_eq!(lost, expected);
            }
            prop_assert!(noisy.iter().all(|label| (0..sizes.len() as i64).contains(label)));
        }

        #[test]
        fn a_larger_ratio_keeps_the_flips_of_a_smaller_one(seed in 0u64..1000) {
            let split = of_sizes(&[30, 20, 10, 5]);
            let (less, more) = (flip(&split, 0.2, seed), flip(&split, 0.5, seed));
            for s in 0..split.len() {
                prop_assert!(less[s] == split.labels[s] || less[s] == more[s]);
            }
        }
    }

    #[test]
    fn seeds_differ_and_all_other_classes_are_equally_likely() {
        let split = of_sizes(&[8000, 2, 2, 2, 2]);
        let noisy = flip(&split, 0.5, 1);
        assert_ne!(noisy, flip(&split, 0.5, 2));
        for class in 1..5 {
            let count = noisy[..8000].iter().filter(|label| **label == class).count();
            assert!((850..1150).contains(&count), "class {class}: {count} of 4000");
        }
    }
}
