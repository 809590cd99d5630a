//! The difficulty ξ± of every training sample, over all pairs of the training set.
//!
//! ```text
//! ξ⁺_a = 1/α log[1 + Σ_{p≠a, same class} e^{-α(S_ap-ρ)}]
//! ξ⁻_a = 1/β log[1 + Σ_{other classes} e^{β(S_an-ρ)}]
//! ```
//!
//! The similarity matrix is computed tile by tile and never stored: only one tile is in memory at a
//! time. It is symmetric, so only tiles on and above the diagonal are computed, and each is used for
//! its rows and its columns. Samples are first sorted by class, so that pairs of one class are near
//! the diagonal and all other tiles need no mask.

use crate::classes::Classes;
use curricle_sdk::{Advice, Error, LossInfo, Result, Round, mm};
use tch::{Device, Kind, Tensor};

/// The constants of the two log-sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct XiConstants {
    /// Sharpness of the log-sum over positives, α.
    pub alpha: f64,
    /// Sharpness of the log-sum over negatives, β.
    pub beta: f64,
    /// Similarity at which a pair starts to count as hard, ρ.
    pub rho: f64,
}

/// ξ⁺ and ξ⁻ of every sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Xi {
    /// Difficulty within the sample's own class.
    pub pos: Vec<f64>,
    /// Difficulty against other classes.
    pub neg: Vec<f64>,
}

impl XiConstants {
    /// Each constant from the scheme's settings, else from the loss, else the usual value.
    ///
    /// Only a loss that has all three is used: in other losses `alpha` and `beta` mean other things.
    pub fn choose(alpha: Option<f64>, beta: Option<f64>, rho: Option<f64>, loss: &LossInfo) -> Self {
        let of_loss = match (loss.number("alpha"), loss.number("beta"), loss.number("rho")) {
            (Some(alpha), Some(beta), Some(rho)) => Self { alpha, beta, rho },
            _ => Self { alpha: 2.0, beta: 50.0, rho: 0.5 },
        };
        Self {
            alpha: alpha.unwrap_or(of_loss.alpha),
            beta: beta.unwrap_or(of_loss.beta),
            rho: rho.unwrap_or(of_loss.rho),
        }
    }

    /// Refuses settings the log-sums are not defined for.
    pub fn check(alpha: Option<f64>, beta: Option<f64>, rho: Option<f64>) -> Result<()> {
        for (path, value) in [("alpha", alpha), ("beta", beta)] {
            if value.is_some_and(|v| !(v > 0.0 && v.is_finite())) {
                return Err(Error::setting(path, "must be above 0"));
            }
        }
        if rho.is_some_and(|v| !v.is_finite()) {
            return Err(Error::setting("rho", "must be a finite number"));
        }
        Ok(())
    }

    /// A warning if negatives have no effect until they are almost identical.
    pub fn advice(&self) -> Option<Advice> {
        // A negative at S = 0.8 adds e^{β(0.8-ρ)} to the 1 in the logarithm.
        let weight = (self.beta * (0.8 - self.rho)).exp();
        (weight < 1e-3).then(|| {
            let message = format!(
                "with `beta` = {} and `rho` = {} a negative pair at similarity 0.8 counts {weight:.0e}, so ξ⁻ is about \
                 0 and only positives matter; try `rho = 0.5`",
                self.beta, self.rho
            );
            Advice::new("rho", message)
        })
    }
}

impl Xi {
    /// Mean ξ⁺ and ξ⁻, named for the log.
    pub fn means(&self) -> [(String, f64); 2] {
        let mean = |xi: &[f64]| xi.iter().sum::<f64>() / xi.len().max(1) as f64;
        [("xi_pos_mean".into(), mean(&self.pos)), ("xi_neg_mean".into(), mean(&self.neg))]
    }
}

/// The embeddings of a round, which schemes based on ξ always request.
pub(crate) fn embeddings<'a>(round: &Round<'a>) -> Result<&'a Tensor> {
    round.embeddings.ok_or_else(|| Error::other("the embeddings of the training set are missing"))
}

/// Rows and columns of a tile: 16 MB in f32. On two threads of an idle machine 2048 was fastest: the
/// exponentials of larger tiles leave the cache before they are summed, and with smaller ones threads wait
/// for each other more often.
const TILE: i64 = 2048;
/// Number of rows in which same-class pairs are masked at a time. They fill a narrow band around the
/// diagonal: masks for whole tiles would cost more than the products, and strips this small are
/// processed by one thread without waiting for others.
const STRIP: i64 = 128;

/// ξ± of embeddings `[N, D]` (of unit norm in a run), on their device, in f32 (f64 for f64 embeddings).
pub fn xi(embeddings: &Tensor, classes: &Classes, constants: &XiConstants) -> Result<Xi> {
    xi_in_tiles(embeddings, classes, constants, TILE.min(classes.samples().max(1) as i64))
}

fn xi_in_tiles(embeddings: &Tensor, classes: &Classes, constants: &XiConstants, tile: i64) -> Result<Xi> {
    let samples = classes.samples() as i64;
    if embeddings.dim() != 2 || embeddings.size()[0] != samples {
        let size = embeddings.size();
        return Err(Error::other(format!("embeddings of shape {size:?} do not match {samples} labels")));
    }
    tch::no_grad(|| {
        let order: Vec<i64> = classes.sorted().iter().map(|&a| a as i64).collect();
        let order = Tensor::from_slice(&order).to_device(embeddings.device());
        let kind = if embeddings.kind() == Kind::Double { Kind::Double } else { Kind::Float };
        let rows = embeddings.index_select(0, &order).to_kind(kind);
        let (pos, neg) = ClassPairs::new(&rows, classes, constants, tile).log_sums();
        let unsort = order.argsort(0, false);
        let host = |sums: Tensor, scale: f64| -> Result<Vec<f64>> {
            // log(1 + e^x) without overflow.
            let xi = sums.logaddexp(&sums.zeros_like()) / scale;
            Ok(Vec::try_from(xi.index_select(0, &unsort).to_device(Device::Cpu))?)
        };
        let xi = Xi { pos: host(pos, constants.alpha)?, neg: host(neg, constants.beta)? };
        // One bad embedding spoils the sums of all others, so search the embeddings.
        if xi.pos.iter().chain(&xi.neg).all(|v| v.is_finite()) {
            return Ok(xi);
        }
        let bad = embeddings.isfinite().logical_not().any_dim(1, false).to_kind(Kind::Int64).argmax(0, false);
        Err(Error::other(format!("the embedding of sample {} is not finite", i64::try_from(bad)?)))
    })
}

/// All pairs of the class-sorted embeddings, tile by tile.
struct ClassPairs<'a> {
    rows: &'a Tensor,
    labels: Tensor,
    /// For each sample in class order, the start and end of its class.
    class: Vec<(i64, i64)>,
    constants: &'a XiConstants,
    tile: i64,
    /// Whether e^{±αS} and e^{±βS}, and their sums over a tile, fit in f32: for unit vectors they do
    /// unless α or β is very large. If not, every tile is reduced by log-sum-exp, which took about 1.6
    /// times as long overall.
    plain: bool,
}

impl<'a> ClassPairs<'a> {
    fn new(rows: &'a Tensor, classes: &Classes, constants: &'a XiConstants, tile: i64) -> Self {
        let ids: Vec<i64> = classes.sorted().iter().map(|&a| classes.of(a) as i64).collect();
        let labels = Tensor::from_slice(&ids).to_device(rows.device());
        let mut class = Vec::with_capacity(ids.len());
        for c in 0..classes.count() {
            let (start, end) = (class.len(), class.len() + classes.size(c));
            class.resize(end, (start as i64, end as i64));
        }
        let steepest = constants.alpha.max(constants.beta);
        let lengths = rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), false).square();
        let plain = lengths.le(76.0 / steepest).all().int64_value(&[]) == 1;
        Self { rows, labels, class, constants, tile, plain }
    }

    /// log Σ e^{-α(S-ρ)} over the positives and log Σ e^{β(S-ρ)} over the negatives of each row,
    /// in f64.
    fn log_sums(&self) -> (Tensor, Tensor) {
        let samples = self.rows.size()[0];
        let empty = if self.plain { 0.0 } else { f64::NEG_INFINITY };
        let accumulator = || Tensor::full([samples], empty, (Kind::Double, self.rows.device()));
        let (pos, neg) = (accumulator(), accumulator());
        for top in (0..samples).step_by(self.tile as usize) {
            // Multiplies the rows, which are few, by β, instead of every tile.
            let rows = self.rows.narrow(0, top, self.tile.min(samples - top)) * self.constants.beta;
            for left in (top..samples).step_by(self.tile as usize) {
                self.add_tile(&rows, top, left, &pos, &neg);
            }
        }
        let XiConstants { alpha, beta, rho } = *self.constants;
        let (pos, neg) = if self.plain { (pos.log(), neg.log()) } else { (pos, neg) };
        (pos + alpha * rho, neg - beta * rho)
    }

    /// Adds e^{-αS} and e^{βS} of one tile; ρ is a common factor that is applied at the end.
    fn add_tile(&self, rows: &Tensor, top: i64, left: i64, pos: &Tensor, neg: &Tensor) {
        let (height, width) = (rows.size()[0], self.tile.min(self.rows.size()[0] - left));
        let exponent = mm(rows, &self.rows.narrow(0, left, width).tr());
        for first in (top..top + height).step_by(STRIP as usize) {
            let last = (first + STRIP).min(top + height) - 1;
            let from = self.class[first as usize].0.max(left);
            let to = self.class[last as usize].1.min(left + width);
            if from < to {
                let strip = exponent.narrow(0, first - top, last + 1 - first).narrow(1, from - left, to - from);
                self.take_positives(strip, first, from, top == left, pos);
            }
        }
        self.reduce(exponent, top, left, top != left, neg);
    }

    /// Adds the positives of a strip that starts at row `first` and column `from`, and leaves only
    /// negatives in it.
    fn take_positives(&self, mut strip: Tensor, first: i64, from: i64, on_diagonal: bool, pos: &Tensor) {
        let (height, width) = (strip.size()[0], strip.size()[1]);
        let of_rows = self.labels.narrow(0, first, height).unsqueeze(1);
        let same = of_rows.eq_tensor(&self.labels.narrow(0, from, width).unsqueeze(0));
        let no_positive = same.logical_not();
        if on_diagonal {
            // No sample is its own positive: column `from + j` is row `first + i`.
            let _ = no_positive.narrow(1, first - from, height).fill_diagonal_(1, false);
        }
        let factor = -self.constants.alpha / self.constants.beta;
        let exponent = (&strip * factor).masked_fill_(&no_positive, f64::NEG_INFINITY);
        self.reduce(exponent, first, from, !on_diagonal, pos);
        let _ = strip.masked_fill_(&same, f64::NEG_INFINITY);
    }

    /// Adds exponentials to the sums of their rows and, if `both`, of their columns: a tile on the
    /// diagonal contains each pair twice.
    fn reduce(&self, mut exponent: Tensor, top: i64, left: i64, both: bool, sums: &Tensor) {
        let (height, width) = (exponent.size()[0], exponent.size()[1]);
        let (mut rows, mut columns) = (sums.narrow(0, top, height), sums.narrow(0, left, width));
        if self.plain {
            let terms = exponent.exp_();
            rows += terms.sum_dim_intlist([1i64].as_slice(), false, None);
            if both {
                columns += terms.sum_dim_intlist([0i64].as_slice(), false, None);
            }
        } else {
            let total = rows.logaddexp(&exponent.logsumexp([1i64].as_slice(), false).to_kind(Kind::Double));
            rows.copy_(&total);
            if both {
                let total = columns.logaddexp(&exponent.logsumexp([0i64].as_slice(), false).to_kind(Kind::Double));
                columns.copy_(&total);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;
    use rand::RngExt;

    fn unit_rows(samples: usize, size: usize, spread: f64) -> Tensor {
        let mut rng = stream(1, "rows", 0, 0);
        let values: Vec<f64> =
            (0..samples * size).map(|i| f64::from(i % size == 0) + spread * rng.random_range(-1.0..1.0)).collect();
        let rows = Tensor::from_slice(&values).view([samples as i64, size as i64]);
        &rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true)
    }

    /// The formula, pair by pair, in f64.
    fn naive(rows: &Tensor, labels: &[i64], constants: &XiConstants) -> Xi {
        let similarity: Vec<Vec<f64>> = Vec::try_from(rows.matmul(&rows.tr())).unwrap();
        let XiConstants { alpha, beta, rho } = *constants;
        let log_sum = |exponents: Vec<f64>| {
            let top = exponents.iter().fold(0.0f64, |m, &x| m.max(x));
            top + ((-top).exp() + exponents.iter().map(|x| (x - top).exp()).sum::<f64>()).ln()
        };
        let all = 0..labels.len();
        let each = |positive: bool, factor: f64| {
            all.clone()
                .map(|a| {
                    let partners = all.clone().filter(|&b| a != b && (labels[a] == labels[b]) == positive);
                    log_sum(partners.map(|b| factor * (similarity[a][b] - rho)).collect()) / factor.abs()
                })
                .collect()
        };
        Xi { pos: each(true, -alpha), neg: each(false, beta) }
    }

    fn furthest(a: &Xi, b: &Xi) -> f64 {
        let gap = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        gap(&a.pos, &b.pos).max(gap(&a.neg, &b.neg))
    }

    #[test]
    fn tiles_agree_with_the_formula_in_both_precisions() {
        // Classes of one, of three and one that spans several tiles, in mixed order.
        let labels: Vec<i64> = (0..97).map(|i| if i % 3 == 0 { 5 } else { i % 11 + 10 * i64::from(i == 50) }).collect();
        let classes = Classes::new(&labels);
        for spread in [0.02, 0.5, 3.0] {
            let rows = unit_rows(97, 12, spread);
            for constants in [
                XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 },
                XiConstants { alpha: 2.0, beta: 50.0, rho: 1.0 },
                XiConstants { alpha: 90.0, beta: 4000.0, rho: -0.3 },
            ] {
                let expected = naive(&rows, &labels, &constants);
                for tile in [8, 31, 2048] {
                    let double = xi_in_tiles(&rows, &classes, &constants, tile).unwrap();
                    assert!(furthest(&double, &expected) < 1e-13, "{}", furthest(&double, &expected));
                    let single = xi_in_tiles(&rows.to_kind(Kind::Float), &classes, &constants, tile).unwrap();
                    assert!(furthest(&single, &expected) < 1e-6, "{}", furthest(&single, &expected));
                }
            }
        }
    }

    #[test]
    fn a_single_class_has_no_negatives_and_single_samples_no_positives() {
        let constants = XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 };
        let rows = unit_rows(3, 4, 1.0);
        let one_class = xi(&rows, &Classes::new(&[1, 1, 1]), &constants).unwrap();
        assert_eq!(one_class.neg, [0.0; 3]);
        let singles = xi(&rows, &Classes::new(&[0, 1, 2]), &constants).unwrap();
        assert_eq!(singles.pos, [0.0; 3]);
    }

    #[test]
    fn identical_embeddings_have_finite_xi() {
        let rows = Tensor::from_slice(&[1.0f32, 0.0]).repeat([5, 1]);
        let found =
            xi(&rows, &Classes::new(&[0, 0, 1, 1, 1]), &XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 }).unwrap();
        assert!((found.neg[0] - (3.0 * 25f64.exp()).ln_1p() / 50.0).abs() < 1e-6);
    }

    #[test]
    fn embeddings_longer_than_one_do_not_overflow() {
        let (rows, labels) = (unit_rows(9, 4, 1.0) * 3.0, [0, 0, 1, 1, 1, 2, 2, 2, 2]);
        let constants = XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 };
        let found = xi(&rows.to_kind(Kind::Float), &Classes::new(&labels), &constants).unwrap();
        assert!(furthest(&found, &naive(&rows, &labels, &constants)) < 1e-5);
    }

    #[test]
    fn shapes_that_do_not_match_the_labels_are_refused() {
        let rows = unit_rows(3, 4, 1.0);
        let constants = XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 };
        assert!(xi(&rows, &Classes::new(&[0, 1]), &constants).unwrap_err().to_string().contains("2 labels"));
    }

    #[test]
    fn negatives_without_effect_are_warned_about() {
        assert!(XiConstants { alpha: 2.0, beta: 50.0, rho: 1.0 }.advice().is_some());
        assert!(XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 }.advice().is_none());
    }
}
