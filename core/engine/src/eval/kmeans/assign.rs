//! The nearest centre of each sample.

use super::{Centres, State};
use crate::eval::search::Path;
use crate::eval::space::{Rows, as_slice, margin};
use rayon::prelude::*;
use tch::{Device, Tensor};

/// Values in one block of products: 16 MB.
const BLOCK: usize = 4 << 20;
/// Values compared in one go.
const LANES: usize = 16;

impl State<'_> {
    /// Moves each of `samples` to the nearest of `clusters` if that is nearer than its own centre
    /// (or as near and of lower index).
    pub fn compare(&mut self, samples: &[u32], clusters: &[u32]) {
        if samples.is_empty() || clusters.is_empty() {
            return;
        }
        let device = self.space.points.device();
        let rows = self.space.rows();
        let values: Vec<f32> = clusters.iter().flat_map(|&c| self.centres.row(c)).copied().collect();
        let centres = Tensor::from_slice(&values).view([-1, rows.dim as i64]).to_device(device);
        let bias: Vec<f32> = clusters.iter().map(|&c| -self.centres.half_norms[c as usize] as f32).collect();
        let bias = Tensor::from_slice(&bias).view([1, -1]).to_device(device);

        let judge = Judge {
            rows,
            clusters,
            centres: &self.centres,
            assignment: &self.assignment,
            closeness: &self.closeness,
            margin: margin(rows.dim),
        };
        let points = self.space.select(samples);
        let size = (BLOCK / clusters.len()).max(1);
        let mut winners = Vec::with_capacity(samples.len());
        for (block, start) in samples.chunks(size).zip((0..).step_by(size)) {
            let products = bias.addmm(&points.narrow(0, start, block.len() as i64), &centres.tr());
            match self.path {
                Path::Tiles => winners.par_extend(judge.scan(block, as_slice(&products))),
                Path::Torch => winners.extend(judge.filter(block, &products)),
            }
        }
        for (&i, (cluster, closeness)) in samples.iter().zip(winners) {
            self.assignment[i as usize] = cluster;
            self.closeness[i as usize] = closeness;
        }
    }
}

/// Settles which centre is nearest, given f32 closeness `[samples, clusters]`.
#[derive(Clone, Copy)]
struct Judge<'a> {
    rows: Rows<'a>,
    clusters: &'a [u32],
    centres: &'a Centres,
    assignment: &'a [u32],
    closeness: &'a [f64],
    margin: f32,
}

impl<'a> Judge<'a> {
    /// CPU: reads each row twice, for its maximum and for what comes close to it.
    fn scan(self, samples: &'a [u32], products: &'a [f32]) -> impl IndexedParallelIterator<Item = (u32, f64)> + 'a {
        let products = products.par_chunks(self.clusters.len());
        samples.par_iter().zip(products).with_min_len(16).map(move |(&sample, products)| {
            let limit = self.limit(sample, maximum(products));
            let mut winner = self.incumbent(sample);
            for (chunk, at) in products.chunks(LANES).zip((0..).step_by(LANES)) {
                if chunk.iter().fold(false, |any, &p| any | (p >= limit)) {
                    for c in (0..chunk.len()).filter(|&c| chunk[c] >= limit) {
                        winner = self.better(sample, winner, at + c);
                    }
                }
            }
            winner
        })
    }

    /// Any device: only what comes close to the maximum leaves it.
    fn filter(self, samples: &[u32], products: &Tensor) -> Vec<(u32, f64)> {
        let best: Vec<f32> = read(&products.amax([1i64].as_slice(), false));
        let limits: Vec<f32> = samples.iter().zip(best).map(|(&i, best)| self.limit(i, best)).collect();
        let limits = Tensor::from_slice(&limits).view([-1, 1]).to_device(products.device());
        let close: Vec<i64> = read(&products.ge_tensor(&limits).nonzero());
        let mut winners: Vec<(u32, f64)> = samples.iter().map(|&i| self.incumbent(i)).collect();
        for pair in close.chunks_exact(2) {
            let row = pair[0] as usize;
            winners[row] = self.better(samples[row], winners[row], pair[1] as usize);
        }
        winners
    }

    /// A centre whose f32 closeness is below this is not the nearest.
    fn limit(&self, sample: u32, best: f32) -> f32 {
        best.max(self.closeness[sample as usize] as f32) - self.margin
    }

    /// Where a sample is now.
    fn incumbent(&self, sample: u32) -> (u32, f64) {
        (self.assignment[sample as usize], self.closeness[sample as usize])
    }

    /// The nearer of a cluster and the one at this place among the clusters, exactly.
    fn better(&self, sample: u32, winner: (u32, f64), at: usize) -> (u32, f64) {
        let cluster = self.clusters[at];
        let closeness = self.centres.closeness(self.rows.row(sample), cluster);
        let nearer = closeness > winner.1 || (closeness == winner.1 && cluster < winner.0);
        if nearer { (cluster, closeness) } else { winner }
    }
}

fn read<T: tch::kind::Element + Default + Clone>(tensor: &Tensor) -> Vec<T> {
    let mut values = vec![T::default(); tensor.numel()];
    tensor.to_device(Device::Cpu).contiguous().copy_data(&mut values, tensor.numel());
    values
}

fn maximum(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let chunks = values.chunks_exact(LANES);
    let tail = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    lanes.into_iter().fold(tail, larger)
}
