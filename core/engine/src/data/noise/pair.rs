//! `pair`: samples of each class are flipped to the next class.
//!
//! Like `uniform`, but every flipped sample of class c gets the label c+1, and those of the last class
//! get the label 0: confusion of similar classes rather than chance.

use super::flips;
use crate::data::Split;
use curricle_sdk::rng::stream;
use rand::seq::SliceRandom;

/// The noisy labels.
pub(super) fn flip(split: &Split, ratio: f64, seed: u64) -> Vec<i64> {
    let mut labels = split.labels.clone();
    let classes = split.class_names.len();
    for (class, mut samples) in split.members().into_iter().enumerate() {
        samples.shuffle(&mut stream(seed, "noise pair", class as u64, 0));
        for sample in &samples[..flips(samples.len(), ratio)] {
            labels[*sample] = ((class + 1) % classes) as i64;
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;

    #[test]
    fn samples_are_flipped_to_the_next_class_only() {
        let split = numbered(&[0, 1, 2].repeat(10));
        let noisy = flip(&split, 0.3, 5);
        for class in 0..3 {
            let moved: Vec<i64> = (0..30).filter(|s| split.labels[*s] == class).map(|s| noisy[s]).collect();
            assert_eq!(moved.iter().filter(|label| **label == class).count(), 7);
            assert_eq!(moved.iter().filter(|label| **label == (class + 1) % 3).count(), 3);
        }
        assert_eq!(noisy, flip(&split, 0.3, 5));
        assert_ne!(noisy, flip(&split, 0.3, 6));
        assert_eq!(flip(&split, 0.0, 5), split.labels);
    }
}
