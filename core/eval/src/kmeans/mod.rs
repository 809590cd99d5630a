//! k-means: Lloyd's algorithm on unit-norm embeddings, Euclidean distance, exact and reproducible.
//!
//! - **Initialisation**: k-means++ in rounds ([`start`]), which also yields the first assignment.
//! - **Assignment** ([`assign`]): f32 products find the nearest centre, and ties within their error
//!   are resolved exactly, so clusters do not depend on the device or the number of threads. Only
//!   what can have changed is computed: a sample whose centre did not move is compared with the moved
//!   centres only. The result is the same as comparing everything.
//! - **Centres** are means, rounded to the grid of [`super::space`].
//! - **Empty clusters** each take the sample farthest from its centre (the lower index on ties) from
//!   a cluster with more than one sample; if all samples are on their centres, a cluster stays empty.
//! - **Termination**: no sample changes its cluster, or the relative decrease of the inertia is below
//!   `tolerance`, or `iterations` assignments were made.

mod assign;
mod start;

use crate::search::Path;
use crate::space::{Space, dot, round_to_grid};
use crate::{Error, Result};
use curricle_sdk::guard;
use rayon::prelude::*;
use tch::Tensor;

/// Options of k-means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KmeansOptions {
    /// Number of clusters.
    pub clusters: usize,
    /// Maximum number of assignments.
    pub iterations: usize,
    /// Stops when the relative decrease of the inertia is below this.
    pub tolerance: f64,
    /// Seed of the initialisation.
    pub seed: u64,
    /// Index of this restart; each has a different initialisation.
    pub restart: u64,
}

impl Default for KmeansOptions {
    fn default() -> Self {
        Self { clusters: 2, iterations: 100, tolerance: 1e-4, seed: 0, restart: 0 }
    }
}

/// The result of k-means.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    /// The cluster of each sample.
    pub assignment: Vec<u32>,
    /// Sum of squared distances to the centres.
    pub inertia: f64,
    /// Number of assignments made.
    pub iterations: usize,
}

/// Clusters embeddings `[N, D]`, normalising them first.
pub fn kmeans(embeddings: &Tensor, options: &KmeansOptions) -> Result<Clustering> {
    let space = Space::new(embeddings)?;
    if options.clusters == 0 || options.clusters > space.len() {
        return Err(Error::Input(format!("cannot form {} clusters from {} samples", options.clusters, space.len())));
    }
    guard(|| Ok(cluster(&space, options, Path::on(space.points.device()))))
        .map_err(|source| Error::Torch { during: "clustering", source })
}

/// Clusters the points; there must be at least as many points as clusters.
pub(super) fn cluster(space: &Space, options: &KmeansOptions, path: Path) -> Clustering {
    let mut state = LloydState::new(space, path);
    start::choose_centres(&mut state, options);
    let mut stale = vec![true; options.clusters];
    let (mut inertia, mut iterations) = (state.inertia(), 1);
    while iterations < options.iterations {
        state.fill_empty_clusters(&mut stale);
        let moved = state.move_centres(&stale);
        let before = state.assignment.clone();
        state.reassign(&moved);
        iterations += 1;
        stale.fill(false);
        for (&old, &new) in before.iter().zip(&state.assignment).filter(|(old, new)| old != new) {
            stale[old as usize] = true;
            stale[new as usize] = true;
        }
        let last = std::mem::replace(&mut inertia, state.inertia());
        if !stale.contains(&true) || last - inertia < options.tolerance * last {
            break;
        }
    }
    Clustering { assignment: state.assignment, inertia, iterations }
}

/// The centres, in host memory.
struct Centres {
    /// `[k, D]`, on the grid.
    values: Vec<f32>,
    /// Half the squared norm of each.
    half_norms: Vec<f64>,
    dim: usize,
}

impl Centres {
    fn len(&self) -> usize {
        self.half_norms.len()
    }

    fn row(&self, cluster: u32) -> &[f32] {
        &self.values[cluster as usize * self.dim..][..self.dim]
    }

    /// `<x, c> - |c|²/2`; larger means nearer.
    fn closeness(&self, point: &[f32], cluster: u32) -> f64 {
        dot(point, self.row(cluster)) - self.half_norms[cluster as usize]
    }
}

/// The current centres and assignment.
struct LloydState<'a> {
    space: &'a Space,
    path: Path,
    centres: Centres,
    /// The nearest centre of each sample.
    assignment: Vec<u32>,
    /// How close each sample is to that centre.
    closeness: Vec<f64>,
    /// The squared norm of each sample: 1, up to rounding.
    norms: Vec<f64>,
}

impl<'a> LloydState<'a> {
    fn new(space: &'a Space, path: Path) -> Self {
        let rows = space.rows();
        let norms = (0..space.len() as u32).into_par_iter().map(|i| dot(rows.row(i), rows.row(i))).collect();
        let (assignment, closeness) = (vec![0; space.len()], vec![f64::NEG_INFINITY; space.len()]);
        let centres = Centres { values: Vec::new(), half_norms: Vec::new(), dim: rows.dim };
        Self { space, path, centres, assignment, closeness, norms }
    }

    /// The squared distance of each sample to its centre.
    fn distances(&self) -> impl Iterator<Item = f64> {
        self.norms.iter().zip(&self.closeness).map(|(norm, close)| (norm - 2.0 * close).max(0.0))
    }

    fn inertia(&self) -> f64 {
        self.distances().sum()
    }

    fn fill_empty_clusters(&mut self, stale: &mut [bool]) {
        let mut counts = vec![0_usize; stale.len()];
        self.assignment.iter().for_each(|&c| counts[c as usize] += 1);
        let empty: Vec<usize> = (0..counts.len()).filter(|&c| counts[c] == 0).collect();
        if empty.is_empty() {
            return;
        }
        let mut farthest: Vec<(f64, usize)> = self.distances().zip(0..).filter(|d| d.0 > 0.0).collect();
        farthest.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut farthest = farthest.into_iter().map(|d| d.1);
        for cluster in empty {
            let Some(sample) = farthest.find(|&i| counts[self.assignment[i] as usize] > 1) else { return };
            let donor = std::mem::replace(&mut self.assignment[sample], cluster as u32) as usize;
            counts[donor] -= 1;
            counts[cluster] = 1;
            stale[donor] = true;
            stale[cluster] = true;
        }
    }

    /// Sets the centres of clusters that gained or lost samples to their means; returns those
    /// that moved.
    fn move_centres(&mut self, stale: &[bool]) -> Vec<u32> {
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); stale.len()];
        for (&cluster, sample) in self.assignment.iter().zip(0..) {
            if stale[cluster as usize] {
                members[cluster as usize].push(sample);
            }
        }
        let rows = self.space.rows();
        let centres = self.centres.values.par_chunks_mut(rows.dim).zip(&mut self.centres.half_norms).zip(&members);
        let moved = centres.enumerate().filter_map(|(cluster, ((centre, half_norm), members))| {
            let mean = mean(members.iter().map(|&m| rows.row(m)), rows.dim)?;
            if mean == centre {
                return None;
            }
            centre.copy_from_slice(&mean);
            *half_norm = dot(centre, centre) / 2.0;
            Some(cluster as u32)
        });
        moved.collect()
    }

    /// Finds every sample's nearest centre after these centres moved.
    fn reassign(&mut self, moved: &[u32]) {
        let mut has_moved = vec![false; self.centres.len()];
        moved.iter().for_each(|&c| has_moved[c as usize] = true);
        let (rows, centres) = (self.space.rows(), &self.centres);
        let samples = self.closeness.par_iter_mut().zip(&self.assignment).enumerate();
        samples.filter(|(_, (_, cluster))| has_moved[**cluster as usize]).for_each(|(i, (closeness, &cluster))| {
            *closeness = centres.closeness(rows.row(i as u32), cluster);
        });
        let (moving, fixed): (Vec<u32>, Vec<u32>) =
            (0..self.space.len() as u32).partition(|&i| has_moved[self.assignment[i as usize] as usize]);
        let all: Vec<u32> = (0..self.centres.len() as u32).collect();
        self.compare(&moving, &all);
        self.compare(&fixed, moved);
    }
}

/// The mean of vectors on the grid, rounded to the grid; sums of such vectors are exact in f64.
fn mean<'a>(members: impl ExactSizeIterator<Item = &'a [f32]>, dim: usize) -> Option<Vec<f32>> {
    let count = members.len() as f64;
    let mut sum = vec![0.0_f64; dim];
    for member in members {
        sum.iter_mut().zip(member).for_each(|(s, &x)| *s += f64::from(x));
    }
    (count > 0.0).then(|| sum.into_iter().map(|s| round_to_grid(s / count)).collect())
}

#[cfg(test)]
mod tests;
