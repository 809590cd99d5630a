//! The published solver: doubly stochastic projected gradient descent (Algorithm 3).
//!
//! Each iteration draws one weight, K others of its class, P other classes and K weights in each
//! of those, and steps along an unbiased estimate of the derivative,
//!
//! ```text
//! G = (1/N^c)(G_p + G_n + G_b - λ)
//! G_p = 1/K Σ_p w_p (ξ⁺_p + ξ⁺_a)      G_n = 1/P Σ_k 1/K Σ_n w_n (ξ⁻_n + ξ⁻_a)
//! G_b = 2μ (ζ(c)/N^c - mean_{k≠c} ζ(k)/N^k)
//! ```
//!
//! `w_a ← clip(w_a - γ_t G, 0, 1)` with γ_t = γ / (1 + decay · t/N). Draws are without
//! replacement; if there are fewer than requested, all are used.

use crate::problem::WeightProblem;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Settings of the sampled solver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Number of other classes drawn per iteration, P.
    pub classes: usize,
    /// Number of weights drawn per class, K.
    pub per_class: usize,
    /// Initial step size, γ.
    pub step: f64,
    /// Decay of the step size per pass of N iterations.
    pub decay: f64,
    /// Number of iterations, each of which updates one weight.
    pub iterations: usize,
}

/// Runs the iterations from `start`.
pub fn solve(problem: &WeightProblem, start: &[f64], sampling: &Sampling, mut rng: ChaCha8Rng) -> Vec<f64> {
    let mut weights: Vec<f64> = start.iter().map(|w| w.clamp(0.0, 1.0)).collect();
    let samples = weights.len();
    if samples == 0 {
        return weights;
    }
    let mut sums = problem.sums(&weights);
    let mut drawn = Vec::new();
    for t in 0..sampling.iterations {
        if t % samples == 0 {
            // Recomputed in every pass, so that rounding errors cannot accumulate.
            sums = problem.sums(&weights);
        }
        let a = rng.random_range(0..samples);
        let class = problem.classes.of(a);
        let estimate =
            sampled_slope(problem, &weights, problem.imbalance(&sums, class), a, sampling, &mut rng, &mut drawn);
        let step = sampling.step / (1.0 + sampling.decay * t as f64 / samples as f64);
        let moved = weights[a] - step * estimate / problem.classes.size(class) as f64;
        let change = moved.clamp(0.0, 1.0) - weights[a];
        problem.shift(&mut sums, a, change);
        weights[a] += change;
    }
    weights
}

/// N^c G, an unbiased estimate of `WeightProblem::slope`.
fn sampled_slope(
    problem: &WeightProblem,
    weights: &[f64],
    imbalance: f64,
    a: usize,
    sampling: &Sampling,
    rng: &mut ChaCha8Rng,
    drawn: &mut Vec<usize>,
) -> f64 {
    let classes = problem.classes;
    let class = classes.of(a);
    let own = classes.members(class);
    // Members are sorted by index.
    let place = own.partition_point(|&b| b < a);
    draw(rng, own.len() - 1, sampling.per_class, drawn);
    let mut positive = 0.0;
    for &i in drawn.iter() {
        let p = own[if i < place { i } else { i + 1 }];
        positive += weights[p] * (problem.xi_pos[p] + problem.xi_pos[a]);
    }
    positive /= drawn.len().max(1) as f64;

    draw(rng, classes.count() - 1, sampling.classes, drawn);
    let others = std::mem::take(drawn);
    let mut negative = 0.0;
    for &i in &others {
        let members = classes.members(if i < class { i } else { i + 1 });
        draw(rng, members.len(), sampling.per_class, drawn);
        let sum: f64 =
            drawn.iter().map(|&n| members[n]).map(|n| weights[n] * (problem.xi_neg[n] + problem.xi_neg[a])).sum();
        negative += sum / drawn.len() as f64;
    }
    negative /= others.len().max(1) as f64;
    positive + negative + 2.0 * problem.mu * imbalance - problem.lambda
}

/// Draws `count` distinct numbers below `below`, or all of them if there are no more (Floyd's method: no
/// memory beyond the result).
fn draw(rng: &mut ChaCha8Rng, below: usize, count: usize, drawn: &mut Vec<usize>) {
    drawn.clear();
    if below <= count {
        drawn.extend(0..below);
        return;
    }
    for top in below - count..below {
        let i = rng.random_range(0..=top);
        drawn.push(if drawn.contains(&i) { top } else { i });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;
    use crate::problem::tests::{random_weights, random_xi};
    use curricle_sdk::rng::stream;

    const LABELS: [i64; 20] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4];

    fn sampling(classes: usize, per_class: usize) -> Sampling {
        Sampling { classes, per_class, step: 1.0, decay: 0.0, iterations: 1 }
    }

    #[test]
    fn the_estimate_is_unbiased() {
        let classes = Classes::new(&LABELS);
        let (xi_pos, xi_neg) = random_xi(20, 1);
        let weights = random_weights(20, 2);
        let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 1.3, mu: 0.7 };
        let gradient = problem.gradient(&weights);
        let sums = problem.sums(&weights);
        let mut rng = stream(1, "test", 0, 0);
        let mut drawn = Vec::new();
        for (a, exact) in gradient.iter().enumerate() {
            let size = classes.size(classes.of(a)) as f64;
            let imbalance = problem.imbalance(&sums, classes.of(a));
            let draws = 20_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..draws {
                let g = sampled_slope(&problem, &weights, imbalance, a, &sampling(2, 2), &mut rng, &mut drawn) / size;
                sum += g;
                squares += g * g;
            }
            let mean = sum / draws as f64;
            let error = ((squares / draws as f64 - mean * mean).max(0.0) / draws as f64).sqrt();
            assert!((mean - exact).abs() < 5.0 * error + 1e-12, "{mean} ± {error}, exactly {exact}");
        }
    }

    #[test]
    fn drawing_everything_gives_the_exact_gradient() {
        let classes = Classes::new(&LABELS);
        let (xi_pos, xi_neg) = random_xi(20, 1);
        let weights = random_weights(20, 2);
        let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 1.3, mu: 0.7 };
        let sums = problem.sums(&weights);
        for a in 0..20 {
            let imbalance = problem.imbalance(&sums, classes.of(a));
            let mut rng = stream(1, "test", 0, 0);
            let all = sampled_slope(&problem, &weights, imbalance, a, &sampling(9, 9), &mut rng, &mut Vec::new());
            assert!((all - problem.slope(&sums, a, weights[a])).abs() < 1e-12);
        }
    }

    #[test]
    fn draws_are_distinct_and_uniform() {
        let mut rng = stream(1, "test", 0, 0);
        let mut drawn = Vec::new();
        let mut hits = [0; 6];
        for _ in 0..6_000 {
            draw(&mut rng, 6, 3, &mut drawn);
            let mut sorted = drawn.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 3);
            drawn.iter().for_each(|&i| hits[i] += 1);
        }
        // 3000 expected; the standard deviation is 39.
        assert!(hits.iter().all(|h| (2800..3200).contains(h)), "{hits:?}");
    }
}
