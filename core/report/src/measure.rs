//! The metrics that tables can show.

use crate::ReportedRun;
use crate::{Error, Result};
use curricle_recipe::nearest;
use curricle_record::Metric;
use serde::Serialize;

/// Metrics shown by default, as far as the runs have them.
const DEFAULT: [&str; 4] = ["recall@1", "nmi", "map@r", "auroc"];

/// The duration of a run.
const SECONDS: &str = "seconds";

/// A metric of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// Its name in files and options.
    pub name: String,
    /// Its name in tables.
    pub title: String,
    /// Whether tables show it in percent.
    pub percent: bool,
    /// Whether higher is better; `None` if neither direction is.
    pub higher_is_better: Option<bool>,
}

impl Measure {
    /// The metric with this name.
    pub fn named(name: &str) -> Self {
        let plain = |title: &str, percent, higher_is_better| Self {
            name: name.into(),
            title: title.into(),
            percent,
            higher_is_better,
        };
        if let Some(metric) = Metric::from_name(name) {
            return plain(&metric.title(), metric.is_fraction(), Some(metric.higher_is_better()));
        }
        match name {
            "auroc" => plain("noise AUROC", true, Some(true)),
            "average_precision" => plain("noise AP", true, Some(true)),
            "precision" => plain("noise precision", true, Some(true)),
            "recall" => plain("noise recall", true, Some(true)),
            "maw" => plain("MAW", false, None),
            "sdaw" => plain("SDAW", false, None),
            SECONDS => plain("time (s)", false, None),
            "final_loss" => plain("loss", false, None),
            _ => plain(&name.replace('_', " "), false, None),
        }
    }

    /// The metrics with these names; the default ones if `names` is empty.
    ///
    /// # Errors
    /// If no run has one of them.
    pub fn choose(names: &[String], runs: &[ReportedRun]) -> Result<Vec<Self>> {
        if names.is_empty() {
            return Ok(Self::usual(runs).iter().map(|name| Self::named(name)).collect());
        }
        let known = known(runs);
        let mut chosen: Vec<Self> = Vec::new();
        for name in names.iter().map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()) {
            if !known.contains(&name) {
                let hint = nearest(&name, known.iter().map(String::as_str)).map_or_else(
                    || format!("available: `{}`", known.join("`, `")),
                    |nearest| format!("did you mean `{nearest}`?"),
                );
                return Err(Error::Usage(format!("no run has a metric `{name}`; {hint}")));
            }
            if chosen.iter().all(|measure| measure.name != name) {
                chosen.push(Self::named(&name));
            }
        }
        Ok(chosen)
    }

    /// Names of the default metrics, as far as the runs have them.
    pub fn usual(runs: &[ReportedRun]) -> Vec<String> {
        let known = known(runs);
        DEFAULT.iter().map(ToString::to_string).filter(|name| known.contains(name)).collect()
    }

    /// Its value at the end of a run.
    pub fn of(&self, run: &ReportedRun) -> Option<f64> {
        let found = values(run).into_iter().find(|(name, _)| *name == self.name);
        found.map(|(_, value)| value).filter(|value| value.is_finite())
    }

    /// Its value before training.
    pub fn untrained(&self, run: &ReportedRun) -> Option<f64> {
        run.result.untrained.scalars().into_iter().find(|(name, _)| *name == self.name).map(|(_, value)| value)
    }

    /// A standard deviation as tables show it, with as many decimals as the mean before it.
    pub(crate) fn show_std(&self, std: f64, mean: f64) -> String {
        if self.percent || self.name == SECONDS || !PLAIN.contains(&mean.abs()) {
            return self.show(std);
        }
        format!("{std:.*}", decimals(mean))
    }

    /// A value, or half a confidence interval, as tables show it.
    pub fn show(&self, value: f64) -> String {
        let shown = if self.percent {
            format!("{:.1}", 100.0 * value)
        } else if self.name == SECONDS {
            // Durations are compared with each other, so they all have the same precision.
            format!("{value:.1}")
        } else if value == 0.0 || PLAIN.contains(&value.abs()) {
            format!("{value:.*}", decimals(value))
        } else {
            format!("{value:.2e}")
        };
        // No negative zero.
        if shown.trim_start_matches(['-', '0', '.']).is_empty() { shown.replace('-', "") } else { shown }
    }
}

/// Numbers that are shown without an exponent.
const PLAIN: std::ops::Range<f64> = 0.01..1e6;

fn decimals(value: f64) -> usize {
    match value.abs() {
        small if small < 10.0 => 3,
        medium if medium < 1000.0 => 1,
        _ => 0,
    }
}

/// Names of all metrics that at least one run has.
fn known(runs: &[ReportedRun]) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for name in runs.iter().flat_map(|run| values(run).into_iter().map(|(name, _)| name)) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

/// All metrics of a run by name.
fn values(run: &ReportedRun) -> Vec<(String, f64)> {
    let result = &run.result;
    let mut values = result.trained.scalars();
    values.extend(result.weighting.iter().cloned());
    values.extend([("final_loss".to_string(), result.final_loss), (SECONDS.to_string(), result.seconds)]);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_shown_in_percent_and_zero_has_no_sign() {
        let recall = Measure::named("recall@8");
        assert_eq!((recall.title.as_str(), recall.show(0.72049)), ("R@8", "72.0".into()));
        assert_eq!(recall.show(-0.0004), "0.0");
        assert_eq!(recall.show(-0.0006), "-0.1");
        let maw = Measure::named("maw");
        assert_eq!([maw.show(0.8), maw.show(12.34), maw.show(1e-7)], ["0.800", "12.3", "1.00e-7"]);
        assert_eq!([maw.show_std(9.8312, 17.1), maw.show_std(0.0012, 0.8)], ["9.8", "0.001"]);
        let time = Measure::named("seconds");
        assert_eq!([time.show(4.266), time.show(59.84), time.show(1213.44)], ["4.3", "59.8", "1213.4"]);
        assert_eq!([maw.show(1213.4), maw.show_std(710.2, 1213.4)], ["1213", "710"]);
    }
}
