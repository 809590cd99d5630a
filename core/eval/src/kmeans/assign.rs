//! Finds the nearest centre of each sample.

use super::{Centres, LloydState};
use crate::parallel;
use crate::search::Path;
use crate::space::{Rows, as_slice, margin};
use curricle_sdk::addmm;
use tch::{Device, Tensor};

/// Number of values in one block of products: 4 MB on a CPU, for its cache. On other devices every block is waited
/// for, so they are 128 MB.
const BLOCK: usize = 1 << 20;
const DEVICE_BLOCK: usize = 1 << 25;
/// Number of values compared at once.
const LANES: usize = 16;

impl LloydState<'_> {
    /// Moves each of `samples` to the nearest of `clusters` if that is nearer than its current centre
    /// (or equally near with a lower index).
    pub(super) fn compare(&mut self, samples: &[u32], clusters: &[u32]) {
        if samples.is_empty() || clusters.is_empty() {
            return;
        }
        let device = self.space.points.device();
        let rows = self.space.rows();
        let values: Vec<f32> = clusters.iter().flat_map(|&c| self.centres.row(c)).copied().collect();
        let centres = Tensor::from_slice(&values).view([-1, rows.dim as i64]).to_device(device);
        let bias: Vec<f32> = clusters.iter().map(|&c| -self.centres.half_norms[c as usize] as f32).collect();
        let bias = Tensor::from_slice(&bias).to_device(device);

        let judge = Judge {
            rows,
            clusters,
            centres: &self.centres,
            assignment: &self.assignment,
            closeness: &self.closeness,
            margin: margin(rows.dim),
        };
        let points = self.space.select(samples);
        let block = if device == Device::Cpu { BLOCK } else { DEVICE_BLOCK };
        let size = (block / clusters.len()).max(1);
        let blocks = samples.chunks(size).zip((0..).step_by(size)).map(|(block, start)| Block {
            samples: block,
            points: points.narrow(0, start, block.len() as i64),
            centres: centres.tr(),
            bias: bias.shallow_clone(),
        });
        let winners: Vec<Vec<(u32, f64)>> = match self.path {
            Path::Tiles => parallel::each(blocks.collect(), |block| judge.scan(block.samples, &block.closeness())),
            Path::Torch => blocks.map(|block| judge.filter(block.samples, &block.closeness())).collect(),
        };
        for (&i, (cluster, closeness)) in samples.iter().zip(winners.into_iter().flatten()) {
            self.assignment[i as usize] = cluster;
            self.closeness[i as usize] = closeness;
        }
    }
}

/// Samples to compare with all clusters at once.
struct Block<'a> {
    samples: &'a [u32],
    points: Tensor,
    centres: Tensor,
    bias: Tensor,
}

impl Block<'_> {
    /// `<x, c> - |c|²/2` in f32, `[samples, clusters]`.
    fn closeness(&self) -> Tensor {
        addmm(&self.bias, &self.points, &self.centres)
    }
}

/// Decides exactly which centre is nearest, given the f32 closeness `[samples, clusters]`.
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
    /// On the CPU: reads each row twice, for its maximum and for the values close to it.
    fn scan(self, samples: &[u32], closeness: &Tensor) -> Vec<(u32, f64)> {
        let rows = as_slice(closeness).chunks_exact(self.clusters.len());
        let winners = samples.iter().zip(rows).map(|(&sample, row)| {
            let limit = self.limit(sample, maximum(row));
            let mut winner = self.incumbent(sample);
            for (chunk, at) in row.chunks(LANES).zip((0..).step_by(LANES)) {
                if chunk.iter().fold(false, |any, &c| any | (c >= limit)) {
                    for c in (0..chunk.len()).filter(|&c| chunk[c] >= limit) {
                        winner = self.better(sample, winner, at + c);
                    }
                }
            }
            winner
        });
        winners.collect()
    }

    /// On any device: only values close to the maximum are copied to the host.
    fn filter(self, samples: &[u32], closeness: &Tensor) -> Vec<(u32, f64)> {
        let best: Vec<f32> = read(&closeness.amax([1i64].as_slice(), false));
        let limits: Vec<f32> = samples.iter().zip(best).map(|(&i, best)| self.limit(i, best)).collect();
        let limits = Tensor::from_slice(&limits).view([-1, 1]).to_device(closeness.device());
        let close: Vec<i64> = read(&closeness.ge_tensor(&limits).nonzero());
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

    /// The current cluster of a sample.
    fn incumbent(&self, sample: u32) -> (u32, f64) {
        (self.assignment[sample as usize], self.closeness[sample as usize])
    }

    /// The nearer of `winner` and the cluster at index `at`, compared exactly.
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
