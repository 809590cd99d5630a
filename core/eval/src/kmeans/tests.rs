//! Tests of k-means.

use super::*;
use tch::{Device, Kind};

fn blobs(classes: i64, each: i64, noise: f64) -> Tensor {
    curricle_torch::seed(5).unwrap();
    let options = (Kind::Float, Device::Cpu);
    Tensor::randn([classes, 24], options).repeat([each, 1]) + noise * Tensor::randn([classes * each, 24], options)
}

fn options(clusters: usize) -> KmeansOptions {
    KmeansOptions { clusters, tolerance: 0.0, ..KmeansOptions::default() }
}

/// Textbook Lloyd's algorithm from the same initial centres: all distances in every iteration, in f64.
fn textbook(space: &Space, options: &KmeansOptions) -> Clustering {
    let mut state = LloydState::new(space, Path::Tiles);
    start::choose_centres(&mut state, options);
    let rows = space.rows();
    let mut iterations = 1;
    loop {
        let inertia = state.inertia();
        if iterations == options.iterations {
            return Clustering { assignment: state.assignment, inertia, iterations };
        }
        let before = state.assignment.clone();
        state.fill_empty_clusters(&mut vec![false; options.clusters]);
        for c in 0..options.clusters {
            let members: Vec<_> = (0..space.len()).filter(|&i| state.assignment[i] == c as u32).collect();
            if let Some(mean) = mean(members.iter().map(|&i| rows.row(i as u32)), rows.dim) {
                state.centres.half_norms[c] = dot(&mean, &mean) / 2.0;
                state.centres.values[c * rows.dim..][..rows.dim].copy_from_slice(&mean);
            }
        }
        for i in 0..space.len() {
            let close = |c: u32| state.centres.closeness(rows.row(i as u32), c);
            let best = (0..options.clusters as u32).fold(0, |best, c| if close(c) > close(best) { c } else { best });
            (state.closeness[i], state.assignment[i]) = (close(best), best);
        }
        iterations += 1;
        if state.assignment == before {
            return Clustering { inertia: state.inertia(), assignment: state.assignment, iterations };
        }
    }
}

#[test]
fn incremental_assignment_matches_the_textbook_algorithm_on_both_paths() {
    let blobs = blobs(20, 15, 1.0);
    let space = Space::new(&Tensor::cat(&[&blobs, &blobs.narrow(0, 0, 40)], 0)).unwrap();
    for clusters in [2, 20, 70] {
        for iterations in [3, 100] {
            let options = KmeansOptions { iterations, ..options(clusters) };
            let expected = textbook(&space, &options);
            assert_eq!(cluster(&space, &options, Path::Tiles), expected);
            assert_eq!(cluster(&space, &options, Path::Torch), expected);
        }
    }
}

#[test]
fn well_separated_classes_are_found() {
    let clustering = kmeans(&blobs(10, 12, 0.1), &options(10)).unwrap();
    for class in 0..10 {
        let members: Vec<u32> = clustering.assignment.iter().copied().skip(class).step_by(10).collect();
        assert!(members.iter().all(|&m| m == members[0]), "class {class}: {members:?}");
    }
}

#[test]
fn no_cluster_stays_empty_while_samples_are_off_their_centres() {
    let clustering = kmeans(&blobs(4, 30, 0.5), &options(60)).unwrap();
    let mut used = clustering.assignment;
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 60);
}

#[test]
fn fewer_distinct_points_than_clusters_give_inertia_zero() {
    let x = Tensor::eye(3, (Kind::Float, Device::Cpu)).repeat([5, 1]);
    let clustering = kmeans(&x, &options(6)).unwrap();
    assert_eq!(clustering.inertia, 0.0);
    assert_eq!(clustering.assignment[..3], clustering.assignment[12..]);
}

#[test]
fn more_clusters_than_samples_are_refused() {
    let error = kmeans(&blobs(2, 2, 0.1), &options(5)).unwrap_err();
    assert_eq!(error.to_string(), "cannot form 5 clusters from 4 samples");
}

#[test]
fn restarts_differ_and_are_reproducible() {
    let x = blobs(30, 8, 1.5);
    let run = |restart| kmeans(&x, &KmeansOptions { restart, ..options(30) }).unwrap();
    assert_eq!(run(0), run(0));
    assert_ne!(run(0).assignment, run(1).assignment);
}
