//! Near-duplicates: samples that are far closer to each other than samples usually are.
//!
//! Two samples are near-duplicates if their distance is at most a given share of the median distance of a
//! sample to its nearest neighbour.

use super::nearest::{Nearest, ROUNDING, distance};
use serde::Serialize;

/// Neighbours considered for each sample.
const NEIGHBOURS: usize = 10;

/// What the two samples of a pair have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicateKind {
    /// Both are training samples with different labels: at least one label is wrong.
    OtherClass,
    /// One is a training sample, the other a test sample: the test set leaks into training.
    TrainAndTest,
    /// Both are training samples of the same class.
    SameClass,
}

impl DuplicateKind {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherClass => "other_class",
            Self::TrainAndTest => "train_and_test",
            Self::SameClass => "same_class",
        }
    }
}

/// Two near-duplicates.
#[derive(Debug, Clone, PartialEq)]
pub struct DuplicatePair {
    /// Row of the first in the training set.
    pub first: usize,
    /// Row of the second in the training set, or in the test set if the kind says so.
    pub second: usize,
    /// What they have in common.
    pub kind: DuplicateKind,
    /// Their distance as a share of the median distance to the nearest neighbour.
    pub distance: f64,
}

/// Finds the pairs of training samples, and of a training and a test sample, by kind and then by distance.
/// `within` is the greatest distance as a share of the median distance to the nearest neighbour.
pub(super) fn find(nearest: &Nearest, labels: &[i64], within: f64) -> Vec<DuplicatePair> {
    let limit = (within * nearest.unit).max(ROUNDING);
    let mut pairs = Vec::new();
    for (first, found) in nearest.found.iter().enumerate() {
        let near = found.iter().take(NEIGHBOURS).take_while(|(_, similarity)| distance(*similarity) <= limit);
        for &(other, similarity) in near {
            let distance = distance(similarity) / nearest.unit;
            let pair = match other.checked_sub(labels.len()) {
                Some(second) => DuplicatePair { first, second, kind: DuplicateKind::TrainAndTest, distance },
                None => {
                    let same = labels[first] == labels[other];
                    let kind = if same { DuplicateKind::SameClass } else { DuplicateKind::OtherClass };
                    DuplicatePair { first: first.min(other), second: first.max(other), kind, distance }
                }
            };
            pairs.push(pair);
        }
    }
    // Both samples of a pair may have found each other.
    let key = |pair: &DuplicatePair| (pair.kind, pair.first, pair.second);
    pairs.sort_by_key(key);
    pairs.dedup_by(|a, b| key(a) == key(b));
    pairs.sort_by(|a, b| a.kind.cmp(&b.kind).then(a.distance.total_cmp(&b.distance)).then(key(a).cmp(&key(b))));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    fn pairs_of(train: &Tensor, test: Option<&Tensor>, labels: &[i64]) -> Vec<DuplicatePair> {
        find(&Nearest::search(train, test).unwrap(), labels, 0.4)
    }

    fn random(rows: i64, seed: i64) -> Tensor {
        curricle_torch::seed(seed).unwrap();
        Tensor::randn([rows, 16], (Kind::Float, Device::Cpu))
    }

    #[test]
    fn pairs_within_across_classes_and_across_the_split_are_found_once() {
        let x = random(60, 1);
        let nearly = |row: i64| x.get(row) + random(1, 100 + row).get(0) * 0.01;
        let train = Tensor::cat(&[x.shallow_clone(), nearly(0).unsqueeze(0), x.get(1).unsqueeze(0)], 0);
        let test = Tensor::cat(&[random(10, 2), nearly(2).unsqueeze(0)], 0);
        let mut labels: Vec<i64> = (0..60).map(|row| row % 3).collect();
        labels.extend([0, 2]);
        let pairs = pairs_of(&train, Some(&test), &labels);
        let found: Vec<_> = pairs.iter().map(|pair| (pair.first, pair.second, pair.kind)).collect();
        let expected = [
            (1, 61, DuplicateKind::OtherClass),
            (2, 10, DuplicateKind::TrainAndTest),
            (0, 60, DuplicateKind::SameClass),
        ];
        assert_eq!(found, expected);
        assert!(pairs[0].distance < 0.01 && pairs[2].distance > 0.0, "{pairs:?}");
        assert!(pairs_of(&train, None, &labels).iter().all(|pair| pair.kind != DuplicateKind::TrainAndTest));
    }

    #[test]
    fn copies_are_found_even_if_all_samples_are_copies() {
        let x = random(1, 3).expand([4, 16], false).contiguous();
        let pairs = pairs_of(&x, None, &[0, 0, 1, 1]);
        assert_eq!(pairs.len(), 6);
    }
}
