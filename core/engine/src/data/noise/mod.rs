//! Label noise: training labels that are deliberately wrong.
//!
//! Noise is drawn once from its own seed and is the same for all methods. Every class has its own random
//! stream, and a larger ratio adds to the flips of a smaller one.

mod file;
mod list;
mod pair;
mod paths;
mod similar;
mod small_cluster;
mod uniform;

pub use file::{load, save};

use super::split::close_gaps;
use super::{Split, hash};
use crate::{Error, Result};
use curricle_recipe::NoiseRecipe;
use tch::Tensor;

/// The noisy labels of a training set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoisyLabels {
    /// The noisy label of each sample: an index into `class_names`.
    pub labels: Vec<i64>,
    /// Whether the label is wrong.
    pub flipped: Vec<bool>,
    /// The classes of the noisy labels: the training classes, without those that the noise dissolved, and
    /// with those that occur only in a label list.
    pub class_names: Vec<String>,
    /// Hash of all the above.
    pub hash: String,
}

/// A training set with noisy labels.
#[derive(Debug)]
pub struct NoisySplit {
    /// The samples with their noisy labels.
    pub split: Split,
    /// Whether the label of each sample is wrong.
    pub flipped: Vec<bool>,
    /// The index of each sample in the set the noise was applied to.
    pub samples: Vec<usize>,
}

/// Draws or reads the noisy labels of a recipe. `run_seed` is used unless the noise has its own seed.
/// `embed` gives the embeddings of `split` by the initial network with a seed, for noise that needs them.
pub fn apply(
    recipe: &NoiseRecipe,
    split: &Split,
    run_seed: u64,
    embed: impl FnOnce(u64) -> Result<Tensor>,
) -> Result<NoisyLabels> {
    let labels = match recipe {
        NoiseRecipe::None => split.labels.clone(),
        NoiseRecipe::Uniform { ratio, seed, .. } => {
            uniform::flip(split, valid(*ratio, split)?, seed.unwrap_or(run_seed))
        }
        NoiseRecipe::Pair { ratio, seed, .. } => pair::flip(split, valid(*ratio, split)?, seed.unwrap_or(run_seed)),
        NoiseRecipe::Similar { ratio, classes, seed, .. } => {
            let (ratio, seed) = (valid(*ratio, split)?, seed.unwrap_or(run_seed));
            if *classes == 0 {
                return Err(Error::Usage("`classes` of the noise must be at least 1".into()));
            }
            similar::flip(split, ratio, *classes, seed, &embed(seed)?)?
        }
        NoiseRecipe::SmallCluster { ratio, cluster_size, seed, .. } => {
            small_cluster::flip(split, valid(*ratio, split)?, *cluster_size, seed.unwrap_or(run_seed))?
        }
        NoiseRecipe::List { path, first_label, labels, unknown_labels, .. } => {
            return list::read(path, *first_label, *labels, *unknown_labels, split);
        }
    };
    Ok(NoisyLabels::new(split, &labels, &split.class_names))
}

/// Whether the recipe excludes flipped samples from training.
pub(crate) fn removes_flipped(recipe: &NoiseRecipe) -> bool {
    match recipe {
        NoiseRecipe::None => false,
        NoiseRecipe::Uniform { remove_flipped, .. }
        | NoiseRecipe::Pair { remove_flipped, .. }
        | NoiseRecipe::Similar { remove_flipped, .. }
        | NoiseRecipe::SmallCluster { remove_flipped, .. }
        | NoiseRecipe::List { remove_flipped, .. } => *remove_flipped,
    }
}

impl NoisyLabels {
    /// Labels that are indices into `class_names`, which starts with the class names of `split`.
    fn new(split: &Split, labels: &[i64], class_names: &[String]) -> Self {
        let flipped: Vec<bool> = labels.iter().zip(&split.labels).map(|(noisy, original)| noisy != original).collect();
        let (labels, class_names) = close_gaps(labels, class_names);
        let mut hasher = blake3::Hasher::new();
        hash::add_labels(&mut hasher, &labels);
        hasher.update(&flipped.iter().map(|f| u8::from(*f)).collect::<Vec<_>>());
        hash::add_texts(&mut hasher, &class_names);
        Self { labels, flipped, class_names, hash: hasher.finalize().to_hex().to_string() }
    }

    /// The training set with these labels, optionally without the flipped samples.
    pub(crate) fn training_set(&self, split: &Split, remove_flipped: bool) -> Result<NoisySplit> {
        let samples: Vec<usize> = (0..split.len()).filter(|s| !(remove_flipped && self.flipped[*s])).collect();
        let labels: Vec<i64> = samples.iter().map(|s| self.labels[*s]).collect();
        let (labels, class_names) = close_gaps(&labels, &self.class_names);
        if class_names.len() < 2 {
            return Err(Error::Usage(format!(
                "the noise leaves only {} of the training classes with samples; choose a smaller `ratio`",
                class_names.len()
            )));
        }
        let split = Split {
            inputs: if samples.len() == split.len() { split.inputs.share() } else { split.inputs.select(&samples)? },
            labels,
            class_names,
            paths: samples.iter().map(|s| split.paths[*s].clone()).collect(),
        };
        Ok(NoisySplit { split, flipped: samples.iter().map(|s| self.flipped[*s]).collect(), samples })
    }
}

/// The number of flipped samples in a class of `size`: the share, rounded half up; at least one if the ratio
/// is not 0, and never all, so that no class disappears.
fn flips(size: usize, ratio: f64) -> usize {
    if ratio == 0.0 || size < 2 { 0 } else { ((ratio * size as f64).round() as usize).clamp(1, size - 1) }
}

fn valid(ratio: f64, split: &Split) -> Result<f64> {
    if !(0.0..=1.0).contains(&ratio) {
        return Err(Error::Usage(format!("`ratio` of the noise must be between 0 and 1, not {ratio}")));
    }
    if ratio > 0.0 && split.class_names.len() < 2 {
        return Err(Error::Usage("label noise needs at least 2 training classes".into()));
    }
    Ok(ratio)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::data::split::numbered;

    /// For noise that needs no embeddings.
    pub(crate) fn no_network(_seed: u64) -> Result<Tensor> {
        Err(Error::Usage("no network".into()))
    }

    #[test]
    fn similar_noise_asks_for_the_network_of_its_own_seed() {
        let split = numbered(&[0, 1, 2, 3].repeat(5));
        let recipe = NoiseRecipe::Similar { ratio: 0.2, classes: 3, seed: Some(7), remove_flipped: false };
        let embed = |seed| {
            assert_eq!(seed, 7);
            Ok(Tensor::eye(20, (tch::Kind::Float, tch::Device::Cpu)))
        };
        let noisy = apply(&recipe, &split, 1, embed).unwrap();
        assert_eq!(noisy.flipped.iter().filter(|flipped| **flipped).count(), 4);
        assert!(apply(&recipe, &split, 1, no_network).is_err());
    }

    #[test]
    fn without_noise_labels_are_unchanged() {
        let split = numbered(&[0, 1, 1, 0]);
        let noisy = apply(&NoiseRecipe::None, &split, 3, no_network).unwrap();
        assert_eq!(noisy.labels, split.labels);
        assert_eq!(noisy.flipped, [false; 4]);
        assert_eq!(noisy.class_names, split.class_names);
    }

    #[test]
    fn flips_are_rounded_and_every_class_keeps_a_sample() {
        assert_eq!([1, 2, 3, 5, 10, 60].map(|n| flips(n, 0.2)), [0, 1, 1, 1, 2, 12]);
        assert_eq!([1, 2, 3, 60].map(|n| flips(n, 1.0)), [0, 1, 2, 59]);
        assert_eq!([1, 2, 3, 60].map(|n| flips(n, 0.0)), [0; 4]);
        assert_eq!([5, 15, 25].map(|n| flips(n, 0.1)), [1, 2, 3]);
    }

    #[test]
    fn a_ratio_outside_of_0_to_1_is_refused() {
        for ratio in [-0.1, 1.1, f64::NAN] {
            let recipe = NoiseRecipe::Pair { ratio, seed: None, remove_flipped: false };
            assert!(matches!(apply(&recipe, &numbered(&[0, 1]), 0, no_network), Err(Error::Usage(_))));
        }
    }

    #[test]
    fn the_noise_uses_its_own_seed_or_the_runs() {
        let split = numbered(&[0, 1, 2, 3, 4].repeat(20));
        let noisy = |seed, run_seed| {
            let recipe = NoiseRecipe::Uniform { ratio: 0.3, seed, remove_flipped: false };
            apply(&recipe, &split, run_seed, no_network).unwrap()
        };
        assert_eq!(noisy(None, 1), noisy(Some(1), 2));
        assert_ne!(noisy(None, 1).hash, noisy(None, 2).hash);
    }

    #[test]
    fn the_training_set_can_exclude_flipped_samples() {
        let split = numbered(&[0, 0, 1, 1, 2, 2]);
        let noisy = NoisyLabels::new(&split, &[0, 1, 1, 1, 1, 1], &split.class_names);
        assert_eq!(noisy.class_names, ["class 0", "class 1"]);
        let all = noisy.training_set(&split, false).unwrap();
        assert_eq!(all.split.labels, [0, 1, 1, 1, 1, 1]);
        assert_eq!(all.flipped, [false, true, false, false, true, true]);
        let clean = noisy.training_set(&split, true).unwrap();
        assert_eq!(clean.samples, [0, 2, 3]);
        assert_eq!(clean.split.labels, [0, 1, 1]);
        assert_eq!(clean.split.paths, ["folder/0.jpg", "folder/2.jpg", "folder/3.jpg"]);
        assert_eq!(clean.flipped, [false; 3]);
    }
}
