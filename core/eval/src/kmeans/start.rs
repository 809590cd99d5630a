//! Initialises k-means with k-means++, many centres at a time.
//!
//! k-means++ (Arthur and Vassilvitskii, 2007) draws each centre with a probability proportional
//! to the squared distance from the centres so far: one pass over the data per centre. Here each of
//! a few rounds draws many centres at once with the same probabilities, without replacement. All
//! rounds together cost as much as one assignment, and produce it.

use super::{KmeansOptions, LloydState};
use curricle_sdk::rng::stream;
use rand::RngExt;

/// Number of rounds in which centres are drawn.
const ROUNDS: usize = 16;

/// Draws the centres and assigns every sample to its nearest centre.
pub(super) fn choose_centres(state: &mut LloydState, options: &KmeansOptions) {
    let k = options.clusters;
    let mut chosen = vec![false; state.space.len()];
    for round in 0..ROUNDS {
        let have = state.centres.len();
        let target = k * (round + 1) / ROUNDS;
        if target == have {
            continue;
        }
        let weights: Vec<f64> = if have == 0 { vec![1.0; chosen.len()] } else { state.distances().collect() };
        let mut rng = stream(options.seed, "kmeans", options.restart, round as u64);
        // Drawing without replacement: one exponential waiting time per sample, the smallest are drawn.
        // Samples on a centre have an infinite time, and are taken in order if no others are left.
        let mut waits: Vec<(f64, usize)> = (0..chosen.len())
            .map(|i| {
                let wait = -(1.0 - rng.random::<f64>()).ln();
                (if weights[i] > 0.0 { wait / weights[i] } else { f64::INFINITY }, i)
            })
            .filter(|w| !chosen[w.1])
            .collect();
        waits.select_nth_unstable_by(target - have - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut drawn: Vec<usize> = waits[..target - have].iter().map(|w| w.1).collect();
        drawn.sort_unstable();
        let rows = state.space.rows();
        for &i in &drawn {
            chosen[i] = true;
            state.centres.values.extend_from_slice(rows.row(i as u32));
            state.centres.half_norms.push(state.norms[i] / 2.0);
        }
        let all: Vec<u32> = (0..chosen.len() as u32).collect();
        let drawn: Vec<u32> = (have as u32..target as u32).collect();
        state.compare(&all, &drawn);
    }
}
