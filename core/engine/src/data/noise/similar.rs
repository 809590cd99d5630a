//! `similar`: in every class the same share of samples is flipped to classes that resemble them.
//!
//! In class c, `round(ratio · N^c)` samples, chosen uniformly, get the label of one of the few other
//! classes whose mean embedding is nearest to the sample by cosine similarity, with equal chance: the
//! mistakes that people make. Means are those of the true classes.

use super::flips;
use crate::data::Split;
use crate::{Error, Result};
use curricle_sdk::guard;
use curricle_sdk::rng::stream;
use rand::RngExt;
use rand::seq::SliceRandom;
use tch::{Device, Kind, Tensor};

/// Samples whose similarities to all classes are in memory at a time.
const TILE: usize = 4096;

/// The noisy labels; `embeddings` are `[N, D]` in the order of the samples.
pub(super) fn flip(split: &Split, ratio: f64, classes: usize, seed: u64, embeddings: &Tensor) -> Result<Vec<i64>> {
    let mut draws = Vec::new();
    for (class, mut samples) in split.members().into_iter().enumerate() {
        let mut rng = stream(seed, "noise similar", class as u64, 0);
        samples.shuffle(&mut rng);
        let candidates = classes.min(split.class_names.len() - 1);
        samples.truncate(flips(samples.len(), ratio));
        draws.extend(samples.into_iter().map(|sample| (sample, rng.random_range(0..candidates))));
    }
    let mut labels = split.labels.clone();
    let nearest = guard(|| nearest_classes(split, &draws, classes, embeddings));
    let nearest = nearest.map_err(|source| Error::Torch { during: "finding similar classes", source })?;
    for ((sample, draw), nearest) in draws.iter().zip(nearest) {
        labels[*sample] = nearest[*draw];
    }
    Ok(labels)
}

/// For each drawn sample the other classes nearest to it, nearest first.
fn nearest_classes(
    split: &Split,
    draws: &[(usize, usize)],
    classes: usize,
    embeddings: &Tensor,
) -> curricle_sdk::Result<Vec<Vec<i64>>> {
    let count = split.class_names.len() as i64;
    // On the host and in f64, so that the device adds nothing to the rounding of the embeddings.
    let x = unit(&embeddings.to_device(Device::Cpu).to_kind(Kind::Double));
    let labels = Tensor::from_slice(&split.labels);
    let mut sums = Tensor::zeros([count, x.size()[1]], (Kind::Double, Device::Cpu));
    let means = unit(&sums.f_index_add_(0, &labels, &x)?).tr();
    let mut found = Vec::with_capacity(draws.len());
    for tile in draws.chunks(TILE) {
        let samples: Vec<i64> = tile.iter().map(|(sample, _)| *sample as i64).collect();
        let samples = Tensor::from_slice(&samples);
        let own = labels.index_select(0, &samples).unsqueeze(1);
        let excluded = Tensor::full(own.size().as_slice(), f64::NEG_INFINITY, (Kind::Double, Device::Cpu));
        let mut similarity = x.index_select(0, &samples).f_matmul(&means)?;
        let _ = similarity.f_scatter_(1, &own, &excluded)?;
        let (_, nearest) = similarity.f_topk((classes as i64).min(count - 1), 1, true, true)?;
        found.extend(Vec::<Vec<i64>>::try_from(nearest)?);
    }
    Ok(found)
}

/// Rows of length 1; a row of zeros stays.
fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;
    use proptest::prelude::*;

    /// Samples of class c at angle c on a circle, in steps of a sixth of a radian, slightly spread.
    fn on_a_circle(split: &Split) -> Tensor {
        let rows: Vec<f64> = split
            .labels
            .iter()
            .enumerate()
            .flat_map(|(sample, class)| {
                let angle = *class as f64 / 6.0 + 0.01 * (sample % 7) as f64;
                [3.0 * angle.cos(), 3.0 * angle.sin()]
            })
            .collect();
        Tensor::from_slice(&rows).view([-1, 2])
    }

    /// Nearest classes by sorting all cosines.
    fn naive(split: &Split, sample: usize, classes: usize, x: &Tensor) -> Vec<i64> {
        let x: Vec<Vec<f64>> = Vec::try_from(x).unwrap();
        let unit = |v: &[f64]| {
            let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
            v.iter().map(|v| v / length).collect::<Vec<f64>>()
        };
        let cosine = |class: i64| {
            let members = (0..split.len()).filter(|s| split.labels[*s] == class);
            let mut mean = vec![0.0; x[0].len()];
            members.for_each(|s| mean.iter_mut().zip(unit(&x[s])).for_each(|(m, v)| *m += v));
            unit(&mean).iter().zip(unit(&x[sample])).map(|(m, v)| m * v).sum::<f64>()
        };
        let mut others: Vec<i64> =
            (0..split.class_names.len() as i64).filter(|class| *class != split.labels[sample]).collect();
        others.sort_by(|a, b| cosine(*b).total_cmp(&cosine(*a)));
        others.truncate(classes);
        others
    }

    #[test]
    fn flipped_samples_go_to_the_nearest_other_classes() {
        let split = numbered(&(0..9).collect::<Vec<_>>().repeat(30));
        let x = on_a_circle(&split);
        let noisy = flip(&split, 0.4, 3, 1, &x).unwrap();
        let mut drawn = std::collections::BTreeSet::new();
        for sample in (0..split.len()).filter(|s| noisy[*s] != split.labels[*s]) {
            let nearest = naive(&split, sample, 3, &x);
            let place = nearest.iter().position(|class| *class == noisy[sample]);
            drawn.insert(place.unwrap_or_else(|| panic!("{} is not in {nearest:?}", noisy[sample])));
        }
        assert_eq!(drawn.len(), 3);
    }

    proptest! {
        #[test]
        fn every_class_loses_its_share_and_larger_ratios_add_flips(
            sizes in prop::collection::vec(1usize..20, 2..8),
            seed in 0u64..1000,
        ) {
            let labels: Vec<i64> =
                sizes.iter().enumerate().flat_map(|(class, size)| std::iter::repeat_n(class as i64, *size)).collect();
            let split = numbered(&labels);
            let x = on_a_circle(&split);
            let (less, more) = (flip(&split, 0.2, 3, seed, &x).unwrap(), flip(&split, 0.5, 3, seed, &x).unwrap());
            prop_assert_eq!(&less, &flip(&split, 0.2, 3, seed, &x).unwrap());
            for (class, size) in sizes.iter().enumerate() {
                let lost = (0..split.len()).filter(|s| labels[*s] == class as i64 && less[*s] != class as i64).count();
                prop_assert_eq!(lost, flips(*size, 0.2));
            }
            for s in 0..split.len() {
                prop_assert!(less[s] == labels[s] || less[s] == more[s]);
            }
        }
    }
}
