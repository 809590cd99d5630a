//! Near-duplicates: samples that are far closer to each other than samples usually are.
//!
//! Two samples are near-duplicates if their distance is at most a given share of the median distance of a
//! sample to its nearest neighbour. The scale comes from the data, so that the same share suits any network.
//! Features are centred first, because those of a network mostly point the same way.

use crate::Result;
use curricle_eval as eval;
use serde::Serialize;
use tch::{Kind, Tensor};

/// Neighbours considered for each sample.
const NEIGHBOURS: usize = 10;
/// Distances of unit vectors below this are rounding errors of f32.
const ROUNDING: f64 = 1e-3;
/// A constant coordinate, so that a sample at the mean has a direction; well above the rounding errors of the mean.
const CONSTANT: f64 = 1e-3;

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
pub(super) fn find(train: &Tensor, test: Option<&Tensor>, labels: &[i64], within: f64) -> Result<Vec<DuplicatePair>> {
    if labels.len() < 2 {
        return Ok(Vec::new());
    }
    let _no_grad = tch::no_grad_guard();
    let both = match test {
        Some(test) => Tensor::f_cat(&[train, test], 0).map_err(curricle_sdk::Error::from),
        None => Ok(train.shallow_clone()),
    };
    let points = both.and_then(|both| centred(&both));
    let points = points.map_err(|source| crate::Error::Torch { during: "comparing features", source })?;
    let queries: Vec<usize> = (0..labels.len()).collect();
    let found = eval::neighbours(&points, None, &queries, NEIGHBOURS)?;
    let distance = |similarity: f32| (2.0 - 2.0 * f64::from(similarity)).max(0.0).sqrt();
    let mut nearest: Vec<f64> = found.iter().filter_map(|found| Some(distance(found.first()?.1))).collect();
    let unit = super::median(&mut nearest).max(ROUNDING);
    let limit = (within * unit).max(ROUNDING);
    let mut pairs = Vec::new();
    for (first, found) in found.iter().enumerate() {
        for &(other, similarity) in found.iter().take_while(|(_, similarity)| distance(*similarity) <= limit) {
            let distance = distance(similarity) / unit;
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
    Ok(pairs)
}

fn centred(features: &Tensor) -> curricle_sdk::Result<Tensor> {
    let x = super::unit(&features.to_kind(Kind::Float));
    let x = &x - x.mean_dim([0i64].as_slice(), true, Kind::Float);
    let constant = Tensor::full([x.size()[0], 1], CONSTANT, (Kind::Float, x.device()));
    Ok(Tensor::f_cat(&[x, constant], 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Device;

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
        let pairs = find(&train, Some(&test), &labels, 0.4).unwrap();
        let found: Vec<_> = pairs.iter().map(|pair| (pair.first, pair.second, pair.kind)).collect();
        let expected = [
            (1, 61, DuplicateKind::OtherClass),
            (2, 10, DuplicateKind::TrainAndTest),
            (0, 60, DuplicateKind::SameClass),
        ];
        assert_eq!(found, expected);
        assert!(pairs[0].distance < 0.01 && pairs[2].distance > 0.0, "{pairs:?}");
        assert!(find(&train, None, &labels, 0.4).unwrap().iter().all(|pair| pair.kind != DuplicateKind::TrainAndTest));
    }

    #[test]
    fn copies_are_found_even_if_all_samples_are_copies() {
        let x = random(1, 3).expand([4, 16], false).contiguous();
        let pairs = find(&x, None, &[0, 0, 1, 1], 0.4).unwrap();
        assert_eq!(pairs.len(), 6);
    }
}
