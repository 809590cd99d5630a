//! `small_cluster`: whole classes are dissolved into others, cluster by cluster.
//!
//! Classes are dissolved in random order, as many as get closest to the noise ratio; at least one, and
//! at least two remain. A dissolved class is divided into clusters of similar samples: a random sample
//! and its nearest neighbours by Euclidean distance of the inputs (for images in files: of their
//! thumbnails), repeated until no sample remains. Each cluster moves to one of the remaining classes,
//! chosen uniformly. Mislabelled samples thus come in consistent groups, which are harder to detect than
//! single ones.

use crate::data::split::select_rows;
use crate::data::{Inputs, Split};
use crate::{Error, Result};
use curricle_sdk::rng::stream;
use rand::RngExt;
use rand::seq::SliceRandom;
use tch::{Device, Kind};

/// Width and height at which images in files are compared.
const COMPARED: i64 = 32;

/// The noisy labels; dissolved classes have no samples left.
pub(super) fn flip(split: &Split, ratio: f64, cluster_size: usize, seed: u64) -> Result<Vec<i64>> {
    let mut labels = split.labels.clone();
    if ratio == 0.0 {
        return Ok(labels);
    }
    let classes = split.class_names.len();
    if classes < 3 {
        return Err(Error::Usage(format!(
            "noise `small_cluster` needs at least 3 training classes, but there are only {classes}"
        )));
    }
    let members = split.members();
    let mut order: Vec<usize> = (0..classes).collect();
    order.shuffle(&mut stream(seed, "noise small_cluster order", 0, 0));
    let (dissolved, remaining) = order.split_at(classes_for(ratio, split.len(), &order, &members));
    for class in dissolved {
        let mut rng = stream(seed, "noise small_cluster class", *class as u64, 0);
        let mut samples = members[*class].clone();
        samples.shuffle(&mut rng);
        for cluster in clusters(&split.inputs, &samples, cluster_size.max(1))? {
            let target = remaining[rng.random_range(0..remaining.len())] as i64;
            cluster.into_iter().for_each(|sample| labels[sample] = target);
        }
    }
    Ok(labels)
}

/// The number of classes, in this order, whose total size is closest to the ratio of all samples.
fn classes_for(ratio: f64, samples: usize, order: &[usize], members: &[Vec<usize>]) -> usize {
    let wanted = ratio * samples as f64;
    let mut moved = 0.0;
    let mut count = 0;
    for class in order {
        let size = members[*class].len() as f64;
        if moved + size / 2.0 > wanted {
            break;
        }
        moved += size;
        count += 1;
    }
    count.clamp(1, order.len() - 2)
}

/// Groups samples: the first remaining one and its nearest neighbours, until none remains.
fn clusters(inputs: &Inputs, samples: &[usize], cluster_size: usize) -> Result<Vec<Vec<usize>>> {
    let rows = rows(inputs, samples)?;
    let width = rows.len() / samples.len().max(1);
    // Sequential sums in f64: the result of a matrix product would depend on the number of threads.
    let distance = |a: usize, b: usize| -> f64 {
        let (a, b) = (&rows[a * width..][..width], &rows[b * width..][..width]);
        a.iter().zip(b).map(|(x, y)| f64::from(x - y).powi(2)).sum()
    };
    let mut left: Vec<usize> = (0..samples.len()).collect();
    let mut clusters = Vec::new();
    while let Some(centre) = left.first().copied() {
        let mut by_distance: Vec<(f64, usize)> = left.iter().map(|other| (distance(centre, *other), *other)).collect();
        // A stable sort, so that the centre comes first even if other samples equal it.
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
        by_distance.truncate(cluster_size);
        left.retain(|sample| by_distance.iter().all(|(_, taken)| taken != sample));
        clusters.push(by_distance.into_iter().map(|(_, sample)| samples[sample]).collect());
    }
    Ok(clusters)
}

/// The inputs of some samples, concatenated.
fn rows(inputs: &Inputs, samples: &[usize]) -> Result<Vec<f32>> {
    let rows = match inputs {
        Inputs::Images(tensor) | Inputs::Features(tensor) => select_rows(tensor, samples)?,
        Inputs::Files(files) => files.thumbnails(samples, COMPARED)?,
    };
    let read = || rows.f_to(Device::Cpu)?.f_to_kind(Kind::Float)?.f_flatten(0, -1)?.try_into();
    read().map_err(|e: tch::TchError| Error::Torch { during: "clustering for label noise", source: e.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;
    use std::collections::BTreeSet;

    #[test]
    fn whole_classes_move_in_clusters_of_neighbours() {
        // Features are sample indices, so the ten samples of a class are neighbours.
        let labels: Vec<i64> = (0..8).flat_map(|class| [class; 10]).collect();
        let split = numbered(&labels);
        let noisy = flip(&split, 0.25, 5, 3).unwrap();
        let gone: Vec<i64> = (0..8).filter(|class| !noisy.contains(class)).collect();
        assert_eq!(gone.len(), 2);
        for s in 0..80 {
            assert_eq!(noisy[s] != labels[s], gone.contains(&labels[s]));
        }
        for class in gone {
            let of_class = &noisy[class as usize * 10..][..10];
            assert!(of_class.iter().collect::<BTreeSet<_>>().len() <= 2, "{of_class:?}");
        }
        assert_eq!(noisy, flip(&split, 0.25, 5, 3).unwrap());
        assert!((4..9).any(|seed| noisy != flip(&split, 0.25, 5, seed).unwrap()));
    }

    #[test]
    fn clusters_are_nearest_neighbours_and_contain_every_sample_once() {
        let split = numbered(&[0; 7]);
        let clusters = clusters(&split.inputs, &[3, 6, 0, 1, 5, 4, 2], 3).unwrap();
        assert_eq!(clusters[0][0], 3);
        assert_eq!(clusters[0].iter().collect::<BTreeSet<_>>(), BTreeSet::from([&2, &3, &4]));
        assert_eq!(clusters.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
        assert_eq!(clusters.concat().iter().collect::<BTreeSet<_>>().len(), 7);
    }

    #[test]
    fn at_least_one_class_is_dissolved_and_two_remain() {
        let split = numbered(&[0, 1, 2, 3].repeat(5));
        for (ratio, left) in [(0.0, 4), (0.01, 3), (1.0, 2)] {
            let noisy = flip(&split, ratio, 2, 1).unwrap();
            assert_eq!(noisy.iter().collect::<BTreeSet<_>>().len(), left, "{ratio}");
        }
        assert!(flip(&numbered(&[0, 1]), 0.5, 2, 1).is_err());
    }
}
