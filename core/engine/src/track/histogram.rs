//! Histograms of values.

/// Number of buckets. TensorBoard re-bins a histogram into 30.
pub(super) const BUCKETS: usize = 60;

/// Counts of the finite values, in buckets of equal width between the smallest and the largest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TensorboardHistogram {
    /// The smallest value.
    pub min: f64,
    /// Right edges of the buckets; none if no value is finite.
    pub limits: Vec<f64>,
    /// Number of values in each bucket.
    pub counts: Vec<f64>,
}

impl TensorboardHistogram {
    pub(super) fn of(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let (min, max) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
        if min > max {
            return Self { min: 0.0, limits: Vec::new(), counts: Vec::new() };
        }
        // Divide first: the range of two huge values of opposite sign overflows.
        let width = max / BUCKETS as f64 - min / BUCKETS as f64;
        if width == 0.0 {
            return Self { min, limits: vec![max], counts: vec![finite().count() as f64] };
        }
        let mut limits: Vec<f64> = (1..=BUCKETS).map(|i| min + width * i as f64).collect();
        limits[BUCKETS - 1] = max;
        let mut counts = vec![0.0; BUCKETS];
        for value in finite() {
            // The cast saturates, and the largest value belongs to the last bucket.
            let index = ((value / width - min / width) as usize).min(BUCKETS - 1);
            counts[index] += 1.0;
        }
        Self { min, limits, counts }
    }
}
