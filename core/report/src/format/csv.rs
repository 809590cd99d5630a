//! CSV: every number of a report, one line for each method, case and metric.

use crate::statistics::Spread;
use crate::summary::{Summary, SummaryRow};
use crate::{Error, Result};

const TITLES: [&str; 26] = [
    "method",
    "case",
    "trained",
    "metric",
    "runs",
    "missing",
    "seeds",
    "mean",
    "std",
    "ci_low",
    "ci_high",
    "rank",
    "gain",
    "gain_std",
    "against",
    "difference",
    "difference_ci_low",
    "difference_ci_high",
    "p",
    "p_corrected",
    "published",
    "published_std",
    "best_epoch_mean",
    "best_epoch",
    "loss",
    "weights",
];

/// The numbers as CSV: fractions rather than percent, empty where there is no value.
pub fn csv(summary: &Summary) -> Result<String> {
    let failed = |message: String| Error::Write { what: "table", message };
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(TITLES).map_err(|e| failed(e.to_string()))?;
    for row in &summary.rows {
        for measure in &summary.metrics {
            if let Some(record) = record(summary, row, &measure.name) {
                table.write_record(record).map_err(|e| failed(e.to_string()))?;
            }
        }
    }
    let bytes = table.into_inner().map_err(|e| failed(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
}

fn record(summary: &Summary, row: &SummaryRow, metric: &str) -> Option<[String; 26]> {
    let value = row.values.get(metric)?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let end = |spread: Option<Spread>, i: usize| number(spread.and_then(|s| s.interval).map(|interval| interval[i]));
    let seeds: Vec<String> = row.seeds.iter().map(ToString::to_string).collect();
    let difference = value.against.map(|against| against.difference);
    Some([
        row.method.clone(),
        row.case.clone().unwrap_or_default(),
        row.trained.to_string(),
        metric.to_string(),
        value.spread.runs.to_string(),
        row.missing.to_string(),
        seeds.join(" "),
        value.spread.mean.to_string(),
        number(value.spread.std),
        end(Some(value.spread), 0),
        end(Some(value.spread), 1),
        value.rank.map_or_else(String::new, |rank| rank.to_string()),
        number(value.gain.map(|gain| gain.mean)),
        number(value.gain.and_then(|gain| gain.std)),
        value.against.and(summary.against.clone()).unwrap_or_default(),
        number(difference.map(|difference| difference.mean)),
        end(difference, 0),
        end(difference, 1),
        number(value.against.and_then(|against| against.p)),
        number(value.against.and_then(|against| against.p_corrected)),
        number(value.published.map(|published| published.mean)),
        number(value.published.and_then(|published| published.std)),
        number(value.best_epoch.map(|best| best.spread.mean)),
        number(value.best_epoch.map(|best| best.epoch)),
        row.loss.clone(),
        row.weights.clone(),
    ])
}
