//! The best epoch of a run, beside the last one that tables report.
//!
//! Choosing the epoch by the metric on the test classes is a selection no one can make in practice; the
//! difference from the last epoch shows how much a method loses while it learns wrong labels by heart.

use crate::statistics::Spread;
use crate::{Measure, ReportedRun};
use curricle_record::RunFolder;
use serde::Serialize;

/// The best value of a metric during training, over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestEpoch {
    /// The best values of the runs.
    #[serde(flatten)]
    pub spread: Spread,
    /// The epochs in which the runs had them, on average.
    pub epoch: f64,
}

impl BestEpoch {
    /// The best epoch of each run after at least one epoch of training; `None` if a run was evaluated fewer than
    /// two times during training or its metrics cannot be read.
    pub(crate) fn of(runs: &[&ReportedRun], measure: &Measure) -> Option<Self> {
        let best: Option<Vec<(u64, f64)>> = runs.iter().map(|run| best(run, measure)).collect();
        let best = best?;
        let values: Vec<f64> = best.iter().map(|(_, value)| *value).collect();
        let epochs: f64 = best.iter().map(|(epoch, _)| *epoch as f64).sum();
        Some(Self { spread: Spread::of(&values)?, epoch: epochs / best.len() as f64 })
    }
}

/// The epoch with the best value of a metric, and that value; the first of equal ones.
fn best(run: &ReportedRun, measure: &Measure) -> Option<(u64, f64)> {
    let sign = if measure.higher_is_better? { 1.0 } else { -1.0 };
    let tag = format!("eval/{}", measure.name);
    let scalars = RunFolder::new(&run.folder).read_metrics().ok()?;
    let evaluated: Vec<(u64, f64)> = scalars
        .iter()
        .filter(|scalar| scalar.tag == tag && scalar.epoch > 0 && scalar.value.is_finite())
        .map(|scalar| (scalar.epoch, scalar.value))
        .collect();
    let better = |a: (u64, f64), b: &(u64, f64)| if sign * b.1 > sign * a.1 { *b } else { a };
    (evaluated.len() > 1).then(|| evaluated.iter().fold(evaluated[0], better))
}
