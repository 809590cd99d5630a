//! Exchanges of weights within a class, for the exact solver.
//!
//! A sample that is left out would pair with all samples of its class that are kept, a kept one with all but itself.
//! So letting a sample in costs up to `2ξ⁺/(N^c-1)` more than keeping an equally hard one, and where the difficulties of a
//! class differ by less, no change of a single weight lowers L: weights that start from those of the last round would
//! never move again, whatever the embeddings say. (Embeddings that are all similar, as those of `arcface` on
//! strokes, have such difficulties. Its weights kept 75 % of the samples with an AUROC of 0.37; after exchanges 0.82.)
//!
//! Handing out the same weights again within the class, the largest to the sample of the lowest cost, leaves all sums
//! of weights as they are, so it changes only the term of the class.

use crate::exact::ROUNDING;
use crate::problem::WeightProblem;

/// Exchanges the weights within each class, if that lowers L, and returns the largest change.
///
/// The sums of the weights stay, so in L only the term of the class changes, `Σ_a cost(a, w_a) / N^c`. With weights
/// of 0 and 1 the best order is that of increasing `cost(a, 1)`; the few between are why the change is checked.
pub(crate) fn exchange(problem: &WeightProblem, weights: &mut [f64]) -> f64 {
    let sums = problem.sums(weights);
    let mut moved = 0.0f64;
    let (mut members, mut sorted): (Vec<(f64, usize)>, Vec<f64>) = (Vec::new(), Vec::new());
    for c in 0..problem.classes.count() {
        let cost = |a: usize, weight: f64| problem.cost(&sums, a, weight);
        members.clear();
        members.extend(problem.classes.members(c).iter().map(|&a| (cost(a, 1.0), a)));
        members.sort_by(|x, y| x.0.total_cmp(&y.0));
        sorted.clear();
        sorted.extend(members.iter().map(|&(_, a)| weights[a]));
        sorted.sort_by(|x, y| y.total_cmp(x));
        let before: f64 = members.iter().map(|&(_, a)| cost(a, weights[a])).sum();
        let after: f64 = members.iter().zip(&sorted).map(|(&(_, a), &weight)| cost(a, weight)).sum();
        if before - after > ROUNDING * before.abs() * members.len() as f64 {
            for (&(_, a), &weight) in members.iter().zip(&sorted) {
                moved = moved.max((weights[a] - weight).abs());
                weights[a] = weight;
            }
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use crate::classes::Classes;
    use crate::exact::solve;
    use crate::problem::WeightProblem;
    use crate::problem::tests::{random_weights, random_xi};
    use curricle_sdk::rng::stream;

    fn run(problem: &WeightProblem, start: &[f64]) -> Vec<f64> {
        solve(problem, start, 1000, 1e-10, stream(1, "test", 0, 0)).weights
    }

    #[test]
    fn weights_that_keep_the_hardest_samples_of_nearly_equal_ones_are_left() {
        let labels: Vec<i64> = (0..400).map(|i| i / 40).collect();
        let classes = Classes::new(&labels);
        let hard = |a: usize| a.is_multiple_of(5);
        let (noise, xi_neg) = random_xi(400, 2);
        let xi_pos: Vec<f64> = (0..400).map(|a| 1.4 + 0.01 * noise[a] + if hard(a) { 0.03 } else { 0.0 }).collect();
        let xi_neg: Vec<f64> = xi_neg.iter().map(|x| 0.6 + 0.001 * x).collect();
        let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 3.2, mu: 3.2 };
        let hardest: Vec<f64> = (0..400).map(|a| if hard(a) { 1.0 } else { f64::from(u8::from(a % 40 > 7)) }).collect();
        let (fresh, found) = (run(&problem, &[1.0; 400]), run(&problem, &hardest));
        let kept = |weights: &[f64]| (0..400).filter(|&a| hard(a)).map(|a| weights[a]).sum::<f64>();
        assert!(kept(&hardest) > 79.0 && kept(&found) < 10.0, "{}", kept(&found));
        let (found, fresh) = (problem.objective(&found), problem.objective(&fresh));
        assert!((found - fresh).abs() < 1e-3 * fresh.abs(), "{found}, from w = 1 {fresh}");
    }

    #[test]
    fn no_exchange_of_two_weights_lowers_the_objective_of_corners() {
        let labels: Vec<i64> = (0..60).map(|i| i % 5).collect();
        let classes = Classes::new(&labels);
        for seed in 0..20 {
            let (xi_pos, xi_neg) = random_xi(60, seed);
            let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 1.6, mu: 0.0 };
            let found = run(&problem, &random_weights(60, seed));
            let value = problem.objective(&found);
            for (a, b) in (0..60).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|(a, b)| labels[*a] == labels[*b]) {
                let mut other = found.clone();
                other.swap(a, b);
                assert!(problem.objective(&other) >= value - 1e-12, "{a} and {b}");
            }
        }
    }
}
