//! Fits λ_∞ to a target for the mean average weight (MAW).

use crate::problem::WeightProblem;
use crate::solver::Solver;

/// Largest accepted deviation from the target MAW.
const TOLERANCE: f64 = 0.002;
/// Maximum number of solves for finding a bracket, and again for bisection.
const TRIES: usize = 12;

/// The λ at which the exact solution from `start` has the target MAW, to within 0.002 if weights that
/// jump between 0 and 1 allow it. `problem_at` gives the problem for a λ.
///
/// The first guess is the λ at which marginal samples are indifferent, which is usually close enough
/// if classes are large; bisection on short solves refines it.
pub fn lambda_for_maw<'a>(
    problem_at: impl Fn(f64) -> WeightProblem<'a>,
    target: f64,
    start: &[f64],
    seed: u64,
    round: u64,
) -> f64 {
    let solver = Solver::Exact { sweeps: 100, tolerance: 1e-6 };
    let miss = |lambda: f64| {
        let problem = problem_at(lambda);
        problem.classes.maw_sdaw(&solver.solve(&problem, start, seed, round).weights).0 - target
    };
    // If no pair has a cost, every λ above 0 keeps all samples.
    let guess = indifference(&problem_at(0.0), target).max(1e-9);
    let (mut lambda, mut error) = (guess, miss(guess));
    let mut best = (error.abs(), lambda);
    let (mut low, mut high) = (None, None);
    for _ in 0..2 * TRIES {
        if error.abs() <= TOLERANCE {
            break;
        }
        *(if error < 0.0 { &mut low } else { &mut high }) = Some(lambda);
        lambda = match (low, high) {
            (Some(low), Some(high)) => 0.5 * (low + high),
            (Some(low), None) => 1.25 * low,
            (None, Some(high)) => high / 1.25,
            (None, None) => break,
        };
        error = miss(lambda);
        if error.abs() < best.0 {
            best = (error.abs(), lambda);
        }
    }
    best.1
}

/// The λ at which, on average over classes, the marginal sample neither gains nor loses, when
/// every class keeps the easiest `target` of its weight. Exact for μ → ∞.
fn indifference(problem: &WeightProblem, target: f64) -> f64 {
    let classes = problem.classes;
    let difficulty = |a: usize| problem.xi_pos[a] + problem.xi_neg[a];
    let mut weights = vec![0.0; classes.samples()];
    // For each class the sample that would be dropped next and the one that would be added next: the
    // same one if its weight is strictly between 0 and 1.
    let mut margins = Vec::with_capacity(classes.count());
    for c in 0..classes.count() {
        let mut members = classes.members(c).to_vec();
        members.sort_by(|&a, &b| difficulty(a).total_cmp(&difficulty(b)));
        let kept = target * members.len() as f64;
        for (i, &a) in members.iter().enumerate() {
            weights[a] = (kept - i as f64).clamp(0.0, 1.0);
        }
        let last = members.len() - 1;
        let dropped = members[((kept.ceil() as usize).max(1) - 1).min(last)];
        let added = members[(kept.floor() as usize).min(last)];
        margins.push((dropped, added));
    }
    let sums = problem.sums(&weights);
    let slope = |a: usize| problem.slope(&sums, a, weights[a]) + problem.lambda;
    margins.iter().map(|&(a, b)| 0.5 * (slope(a) + slope(b))).sum::<f64>() / classes.count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;
    use crate::problem::tests::random_xi;

    #[test]
    fn the_target_is_met_with_and_without_balance() {
        let labels: Vec<i64> = (0..600).map(|i| i % 20).collect();
        let classes = Classes::new(&labels);
        let (xi_pos, xi_neg) = random_xi(600, 3);
        let start = vec![1.0; 600];
        for target in [0.3, 0.5, 0.8, 0.95] {
            for share in [0.0, 1.0] {
                let at = |lambda| WeightProblem {
                    classes: &classes,
                    xi_pos: &xi_pos,
                    xi_neg: &xi_neg,
                    lambda,
                    mu: share * lambda,
                };
                let lambda = lambda_for_maw(at, target, &start, 1, 1);
                let solution = Solver::default().solve(&at(lambda), &start, 1, 1);
                let maw = classes.maw_sdaw(&solution.weights).0;
                assert!((maw - target).abs() < 0.01, "{maw} for {target} with mu = {share} lambda");
            }
        }
    }

    #[test]
    fn pairs_without_cost_and_missing_pairs_give_a_positive_lambda() {
        for labels in [vec![0, 0, 1, 1], vec![0], vec![0, 1], vec![0, 0]] {
            let classes = Classes::new(&labels);
            let zeros = vec![0.0; labels.len()];
            let at = |lambda| WeightProblem { classes: &classes, xi_pos: &zeros, xi_neg: &zeros, lambda, mu: lambda };
            let lambda = lambda_for_maw(at, 0.8, &vec![1.0; labels.len()], 1, 1);
            assert!(lambda.is_finite() && lambda > 0.0, "{lambda} for {labels:?}");
        }
    }
}
