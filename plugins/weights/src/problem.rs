//! The objective of balanced self-paced learning as a function of the weights alone.
//!
//! With ζ(c) = Σ_a w_a over class c, z_c = ζ(c)/N^c and b_c = Σ_a w_a ξ⁻_a / N^c:
//!
//! ```text
//! L(w) = Σ_c 1/(N^c (N^c-1)) Σ_a w_a (ζ(c) - w_a) ξ⁺_a  +  1/(C-1) Σ_{c≠k} b_c z_k
//!        - λ Σ_c z_c  +  μ/(C-1) Σ_{c<k} (z_c - z_k)²
//! ```
//!
//! The sums over pairs of classes collapse into totals, so the objective and its whole gradient
//! cost O(N). A class of one sample has no positive pairs and a single class has no negative pairs:
//! those terms are 0.

use crate::classes::Classes;

/// Differences this small relative to their terms are rounding errors: with μ = 0 they must not flip a weight.
pub(crate) const ROUNDING: f64 = 1e-13;

/// One weight problem: fixed ξ±, λ and μ.
#[derive(Debug, Clone, Copy)]
pub struct WeightProblem<'a> {
    /// The samples of each class.
    pub classes: &'a Classes,
    /// Difficulty of each sample within its own class, ξ⁺.
    pub xi_pos: &'a [f64],
    /// Difficulty of each sample against other classes, ξ⁻.
    pub xi_neg: &'a [f64],
    /// Age λ: how hard a sample may be and still be used.
    pub lambda: f64,
    /// Strength μ of the balance between the classes' average weights.
    pub mu: f64,
}

/// Sums over the current weights from which any partial derivative follows in O(1).
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// ζ(c) = Σ w.
    zeta: Vec<f64>,
    /// A_c = Σ w ξ⁺.
    pos: Vec<f64>,
    /// B_c = Σ w ξ⁻.
    neg: Vec<f64>,
    /// Σ_c ζ(c)/N^c.
    zeta_total: f64,
    /// Σ_c B_c/N^c.
    neg_total: f64,
}

impl WeightProblem<'_> {
    /// The sums at these weights.
    pub(crate) fn sums(&self, weights: &[f64]) -> Sums {
        let count = self.classes.count();
        let mut sums = Sums {
            zeta: vec![0.0; count],
            pos: vec![0.0; count],
            neg: vec![0.0; count],
            zeta_total: 0.0,
            neg_total: 0.0,
        };
        for (a, &c) in self.classes.ids().iter().enumerate() {
            sums.zeta[c] += weights[a];
            sums.pos[c] += weights[a] * self.xi_pos[a];
            sums.neg[c] += weights[a] * self.xi_neg[a];
        }
        for c in 0..count {
            let size = self.classes.size(c) as f64;
            sums.zeta_total += sums.zeta[c] / size;
            sums.neg_total += sums.neg[c] / size;
        }
        sums
    }

    /// Updates the sums for a change of one weight.
    pub(crate) fn shift(&self, sums: &mut Sums, a: usize, change: f64) {
        let c = self.classes.of(a);
        let size = self.classes.size(c) as f64;
        sums.zeta[c] += change;
        sums.pos[c] += change * self.xi_pos[a];
        sums.neg[c] += change * self.xi_neg[a];
        sums.zeta_total += change / size;
        sums.neg_total += change * self.xi_neg[a] / size;
    }

    /// g_a, the partial derivative of L with respect to weight `a`, times N^c.
    pub(crate) fn slope(&self, sums: &Sums, a: usize, weight: f64) -> f64 {
        let c = self.classes.of(a);
        let size = self.classes.size(c) as f64;
        let mut slope = -self.lambda;
        if size > 1.0 {
            slope += (sums.pos[c] + self.xi_pos[a] * (sums.zeta[c] - 2.0 * weight)) / (size - 1.0);
        }
        if self.classes.count() > 1 {
            let others = (self.classes.count() - 1) as f64;
            let zeta = sums.zeta[c] / size;
            let zeta_others = (sums.zeta_total - zeta) / others;
            let neg_others = (sums.neg_total - sums.neg[c] / size) / others;
            slope += neg_others + self.xi_neg[a] * zeta_others + 2.0 * self.mu * (zeta - zeta_others);
        }
        slope
    }

    /// What weight `a` adds to L, times N^c, at this value and these sums, without λ and μ:
    /// `w (ζ(c) - w) ξ⁺ / (N^c-1) + w ξ⁻ mean_{k≠c} ζ(k)/N^k`.
    pub(crate) fn cost(&self, sums: &Sums, a: usize, weight: f64) -> f64 {
        let c = self.classes.of(a);
        let size = self.classes.size(c) as f64;
        let mut cost = 0.0;
        if size > 1.0 {
            cost += weight * (sums.zeta[c] - weight) * self.xi_pos[a] / (size - 1.0);
        }
        if self.classes.count() > 1 {
            let others = (self.classes.count() - 1) as f64;
            cost += weight * self.xi_neg[a] * (sums.zeta_total - sums.zeta[c] / size) / others;
        }
        cost
    }

    /// ζ(c)/N^c - mean_{k≠c} ζ(k)/N^k: how far a class is above the others.
    pub(crate) fn imbalance(&self, sums: &Sums, c: usize) -> f64 {
        if self.classes.count() < 2 {
            return 0.0;
        }
        let zeta = sums.zeta[c] / self.classes.size(c) as f64;
        zeta - (sums.zeta_total - zeta) / (self.classes.count() - 1) as f64
    }

    /// The second derivative of L with respect to one weight, times (N^c)²: L is quadratic in each.
    pub(crate) fn curvature(&self) -> f64 {
        if self.classes.count() > 1 { 2.0 * self.mu } else { 0.0 }
    }

    /// L(w).
    pub fn objective(&self, weights: &[f64]) -> f64 {
        let sums = self.sums(weights);
        let count = self.classes.count();
        let mut own = vec![0.0; count];
        for (a, &c) in self.classes.ids().iter().enumerate() {
            own[c] += weights[a] * (sums.zeta[c] - weights[a]) * self.xi_pos[a];
        }
        let (mut positive, mut same) = (0.0, 0.0);
        for (c, own) in own.iter().enumerate() {
            let size = self.classes.size(c) as f64;
            if size > 1.0 {
                positive += own / (size * (size - 1.0));
            }
            same += sums.neg[c] * sums.zeta[c] / (size * size);
        }
        let mut value = positive - self.lambda * sums.zeta_total;
        if count > 1 {
            let others = (count - 1) as f64;
            // Σ_{c<k} (z_c - z_k)² = C² times the variance, which avoids cancellation.
            let spread = (count as f64 * self.classes.maw_sdaw(weights).1).powi(2);
            value += (sums.neg_total * sums.zeta_total - same + self.mu * spread) / others;
        }
        value
    }

    /// ∂L/∂w for every weight.
    pub fn gradient(&self, weights: &[f64]) -> Vec<f64> {
        let sums = self.sums(weights);
        (0..weights.len())
            .map(|a| self.slope(&sums, a, weights[a]) / self.classes.size(self.classes.of(a)) as f64)
            .collect()
    }

    /// Euclidean norm of the projected gradient over the box `[0,1]^N`: 0 if and only if no change of a
    /// single weight lowers L to first order.
    pub fn projected_gradient(&self, weights: &[f64]) -> f64 {
        let gradient = self.gradient(weights);
        let projected = gradient.iter().zip(weights).map(|(&g, &w)| {
            if w <= 0.0 {
                g.min(0.0)
            } else if w >= 1.0 {
                g.max(0.0)
            } else {
                g
            }
        });
        projected.map(|g| g * g).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use rand::RngExt;

    /// ξ⁺ and ξ⁻ of plausible size.
    pub(crate) fn random_xi(samples: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut rng = stream(seed, "xi", 0, 0);
        let mut draw = |from: f64, to: f64| (0..samples).map(|_| rng.random_range(from..to)).collect();
        (draw(0.2, 2.5), draw(0.0, 0.6))
    }

    pub(crate) fn random_weights(samples: usize, seed: u64) -> Vec<f64> {
        let mut rng = stream(seed, "weights", 0, 0);
        (0..samples).map(|_| rng.random()).collect()
    }

    /// The objective as published, pair by pair.
    fn naive(problem: &WeightProblem, weights: &[f64]) -> f64 {
        let classes = problem.classes;
        let count = classes.count();
        let zeta: Vec<f64> = (0..count).map(|c| classes.members(c).iter().map(|&a| weights[a]).sum()).collect();
        let z = |c: usize| zeta[c] / classes.size(c) as f64;
        let mut value = 0.0;
        for (c, &zeta_c) in zeta.iter().enumerate() {
            let size = classes.size(c) as f64;
            for &a in classes.members(c) {
                let mut inner = 0.0;
                if size > 1.0 {
                    inner += (zeta_c - weights[a]) / (size - 1.0) * problem.xi_pos[a];
                }
                for k in (0..count).filter(|&k| k != c) {
                    inner += z(k) * problem.xi_neg[a] / (count - 1) as f64;
                }
                value += weights[a] / size * inner;
            }
            value -= problem.lambda * z(c);
            for k in c + 1..count {
                value += problem.mu / (count - 1) as f64 * (z(c) - z(k)).powi(2);
            }
        }
        value
    }

    const LAYOUTS: [&[i64]; 5] = [&[0, 0, 0, 1, 1, 2, 2, 2, 2], &[0, 1, 1], &[5, 5, 5], &[0], &[0, 1, 2]];

    #[test]
    fn the_objective_equals_the_sums_over_pairs() {
        for labels in LAYOUTS {
            let classes = Classes::new(labels);
            let (xi_pos, xi_neg) = random_xi(labels.len(), 1);
            let weights = random_weights(labels.len(), 2);
            for mu in [0.0, 0.9] {
                let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 1.1, mu };
                let (fast, slow) = (problem.objective(&weights), naive(&problem, &weights));
                assert!((fast - slow).abs() < 1e-13, "{fast} {slow} for {labels:?}");
            }
        }
    }

    #[test]
    fn the_gradient_equals_finite_differences() {
        for labels in LAYOUTS {
            let classes = Classes::new(labels);
            let (xi_pos, xi_neg) = random_xi(labels.len(), 3);
            let weights = random_weights(labels.len(), 4);
            let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 0.7, mu: 1.3 };
            let gradient = problem.gradient(&weights);
            for a in 0..labels.len() {
                let at = |step: f64| {
                    let mut moved = weights.clone();
                    moved[a] += step;
                    naive(&problem, &moved)
                };
                // L is quadratic in each weight: central differences are exact up to rounding.
                let difference = (at(1e-3) - at(-1e-3)) / 2e-3;
                assert!((gradient[a] - difference).abs() < 1e-11, "{} {difference}", gradient[a]);
            }
        }
    }

    #[test]
    fn running_sums_are_updated_for_a_single_change() {
        let classes = Classes::new(LAYOUTS[0]);
        let (xi_pos, xi_neg) = random_xi(9, 5);
        let problem = WeightProblem { classes: &classes, xi_pos: &xi_pos, xi_neg: &xi_neg, lambda: 0.7, mu: 1.3 };
        let mut weights = random_weights(9, 6);
        let mut sums = problem.sums(&weights);
        problem.shift(&mut sums, 4, 0.25 - weights[4]);
        weights[4] = 0.25;
        let fresh = problem.sums(&weights);
        for (a, &w) in weights.iter().enumerate() {
            let (kept, new) = (problem.slope(&sums, a, w), problem.slope(&fresh, a, w));
            assert!((kept - new).abs() < 1e-14);
        }
    }

    #[test]
    fn the_projected_gradient_ignores_directions_out_of_bounds() {
        let classes = Classes::new(&[0, 0]);
        let problem =
            WeightProblem { classes: &classes, xi_pos: &[0.0, 0.0], xi_neg: &[0.0, 0.0], lambda: 1.0, mu: 0.0 };
        assert_eq!(problem.projected_gradient(&[1.0, 1.0]), 0.0);
        assert!((problem.projected_gradient(&[0.5, 1.0]) - 0.5).abs() < 1e-15);
    }
}
