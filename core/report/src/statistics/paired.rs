//! Paired tests of whether two methods differ, from their differences per seed.

use super::spread::{Spread, student};
use serde::Serialize;
use statrs::distribution::ContinuousCDF;

/// Maximum number of pairs in the exact sign-flip test, whose cost doubles with each pair.
pub(crate) const EXACT_SIGN_FLIPS: usize = 20;

/// A two-sided test of paired values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Student's t test of the differences, which assumes that they are normally distributed.
    #[default]
    T,
    /// Wilcoxon's signed-rank test with its exact distribution; differences of 0 do not count.
    Wilcoxon,
    /// Exact sign-flip test, which counts all combinations of signs of the differences.
    SignFlip,
}

impl Test {
    /// Its name in captions.
    pub fn title(self) -> &'static str {
        match self {
            Test::T => "paired t test",
            Test::Wilcoxon => "exact Wilcoxon signed-rank test",
            Test::SignFlip => "exact sign-flip test",
        }
    }

    /// The smallest p that this number of pairs can give, for exact tests.
    pub(crate) fn smallest_p(self, pairs: usize) -> Option<f64> {
        (self != Test::T).then(|| 2.0 / 2f64.powi(pairs as i32))
    }

    /// The two-sided p value. `None` if there are too few pairs, too many for the sign-flip test, or no
    /// variance for the t test.
    pub(crate) fn p_value(self, differences: &[f64]) -> Option<f64> {
        if differences.len() < 2 || differences.iter().any(|d| !d.is_finite()) {
            return None;
        }
        if differences.iter().all(|d| *d == 0.0) {
            return Some(1.0);
        }
        match self {
            Test::T => t(differences),
            Test::Wilcoxon => Some(wilcoxon(differences)),
            Test::SignFlip => sign_flip(differences),
        }
    }
}

fn t(differences: &[f64]) -> Option<f64> {
    let spread = Spread::of(differences)?;
    let error = spread.std.filter(|std| *std > 0.0)? / (spread.runs as f64).sqrt();
    Some(2.0 * student(spread.runs - 1)?.sf((spread.mean / error).abs()))
}

/// Ties share their mean rank. Twice that rank is an integer, so the exact distribution of the rank
/// sum over all signs can be computed.
fn wilcoxon(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (mut ranks, mut positive) = (Vec::new(), 0);
    for group in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        let doubled = 2 * ranks.len() + group.len() + 1;
        positive += doubled * group.iter().filter(|d| **d > 0.0).count();
        ranks.extend(group.iter().map(|_| doubled));
    }
    let total: usize = ranks.iter().sum();
    // Probabilities rather than counts: they stay finite for any number of pairs.
    let mut share = vec![0.0; total + 1];
    share[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        for sum in (0..=reached).rev() {
            share[sum] *= 0.5;
            share[sum + rank] += share[sum];
        }
        reached += rank;
    }
    let low = positive.min(total - positive);
    (2.0 * share[..=low].iter().sum::<f64>()).min(1.0)
}

fn sign_flip(differences: &[f64]) -> Option<f64> {
    if differences.len() > EXACT_SIGN_FLIPS {
        return None;
    }
    let observed = differences.iter().sum::<f64>().abs();
    // Rounding: sums that should be equal may differ in the last bits.
    let least = observed - 1e-12 * differences.iter().map(|d| d.abs()).sum::<f64>();
    // Flipping all signs keeps the distance from 0, so the last sign stays fixed.
    let halves = 1u32 << (differences.len() - 1);
    let far = (0..halves).filter(|signs| {
        let sum: f64 = differences.iter().enumerate().map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d }).sum();
        sum.abs() >= least
    });
    Some(far.count() as f64 / f64::from(halves))
}
