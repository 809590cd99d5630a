//! Recall@K, R-precision and MAP@R from ranked neighbours.

/// The metrics of one query's ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ranked {
    /// Number of neighbours before the first one of the query's class.
    pub misses: Option<usize>,
    /// r/R: the fraction of the R nearest that are of the query's class.
    pub r_precision: f64,
    /// (1/R) Σ_{i≤R} P(i)·[the i-th is of the query's class].
    pub average_precision: f64,
}

impl Ranked {
    /// `matches` says for each neighbour, nearest first, whether it is of the query's class; `relevant`
    /// is R, the number of references of that class.
    pub(crate) fn new(matches: impl Iterator<Item = bool>, relevant: usize) -> Self {
        let (mut misses, mut found, mut precisions) = (None, 0_usize, 0.0);
        let mut found_in_r = 0;
        for (before, is_match) in matches.enumerate() {
            if !is_match {
                continue;
            }
            misses = misses.or(Some(before));
            found += 1;
            if before < relevant {
                found_in_r = found;
                precisions += found as f64 / (before + 1) as f64;
            }
        }
        let relevant = relevant as f64;
        Self { misses, r_precision: found_in_r as f64 / relevant, average_precision: precisions / relevant }
    }
}

/// Fraction of queries with a match among the K nearest.
pub(super) fn recall_at(k: usize, ranked: &[Ranked]) -> f64 {
    let found = ranked.iter().filter(|r| r.misses.is_some_and(|misses| misses < k)).count();
    found as f64 / ranked.len() as f64
}

/// Mean over queries, summed in order.
pub(super) fn mean(ranked: &[Ranked], of: impl Fn(&Ranked) -> f64) -> f64 {
    ranked.iter().map(of).sum::<f64>() / ranked.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worked_example_gives_the_expected_metrics() {
        // R = 3; matches at ranks 2 and 3, and at 5, which is beyond R.
        let r = Ranked::new([false, true, true, false, true].into_iter(), 3);
        assert_eq!(r.misses, Some(1));
        assert_eq!(r.r_precision, 2.0 / 3.0);
        assert!((r.average_precision - (1.0 / 2.0 + 2.0 / 3.0) / 3.0).abs() < 1e-15);
    }

    #[test]
    fn recall_counts_queries_with_a_match_among_the_k_nearest() {
        let at = |misses| Ranked { misses, r_precision: 0.0, average_precision: 0.0 };
        let ranked = [at(Some(0)), at(Some(1)), at(Some(7)), at(None)];
        assert_eq!([1, 2, 7, 8].map(|k| recall_at(k, &ranked)), [0.25, 0.5, 0.5, 0.75]);
    }
}
