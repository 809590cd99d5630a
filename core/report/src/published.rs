//! Published results, shown next to ours where data set and noise match.
//!
//! The paper names neither its network nor its number of epochs, so equal conditions cannot be
//! claimed: the values show how methods compare, not what ours should reach.

use crate::{Measure, ReportedRun};
use serde::Serialize;
use std::sync::LazyLock;

/// Source of the values, for captions.
pub(crate) const SOURCE: &str = "published: balanced self-paced metric learning (AAAI 2023); the paper does not state its \
                          network or number of epochs, so compare the order of methods rather than the values";

/// A published mean, in the same unit as ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// The mean.
    pub mean: f64,
    /// The standard deviation, if published.
    pub std: Option<f64>,
}

struct Record {
    dataset: String,
    noise_ratio: f64,
    method: String,
    metric: String,
    value: Published,
}

static RECORDS: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(include_bytes!("published.csv").as_slice());
    let record = |row: csv::StringRecord| {
        let percent = |i: usize| row.get(i)?.parse::<f64>().ok().map(|value| value / 100.0);
        let word = |i: usize| row.get(i).map(str::to_string);
        let value = Published { mean: percent(4)?, std: percent(5) };
        let noise_ratio = row.get(1)?.parse().ok()?;
        Some(Record { dataset: word(0)?, noise_ratio, method: word(2)?, metric: word(3)?, value })
    };
    reader.records().filter_map(|row| record(row.ok()?)).collect()
});

/// The methods of the published tables, in their order.
pub(crate) fn methods() -> impl Iterator<Item = &'static str> {
    // SPMS comes before BSPML in the figures and is not in the tables.
    ["contrastive", "triplet", "margin", "fastap", "ms", "rdml", "proxy_anchor", "snr", "spms", "bspml"].into_iter()
}

/// The published value of a run's metric.
pub(crate) fn value(run: &ReportedRun, measure: &Measure) -> Option<Published> {
    let (dataset, noise, method) = (run.word("data.source")?, noise_ratio(run)?, method(run)?);
    let same = |r: &&Record| {
        r.dataset == dataset && (r.noise_ratio - noise).abs() < 1e-9 && r.method == method && r.metric == measure.name
    };
    RECORDS.iter().find(same).map(|record| record.value)
}

/// The noise ratio if the noise is as in the paper: none, or uniform with the flipped samples kept.
/// Only results on the test classes are comparable.
fn noise_ratio(run: &ReportedRun) -> Option<f64> {
    let as_usual = run.setting("noise.remove_flipped").is_none_or(|value| value == false)
        && run.word("eval.on").is_none_or(|on| on == "test");
    match run.word("noise.name").unwrap_or("none") {
        "none" if as_usual => Some(0.0),
        "uniform" if as_usual => run.number("noise.ratio"),
        _ => None,
    }
}

/// The method that a run computes, whatever its name.
fn method(run: &ReportedRun) -> Option<&str> {
    let (loss, weights) = (run.result.loss.as_str(), run.result.weights.as_str());
    match (loss, weights) {
        ("bspml", "balanced_self_paced") if run.number("weights.mu") != Some(0.0) => Some("bspml"),
        ("bspml", _) => None,
        (loss, "uniform") => Some(loss),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use serde_json::json;

    #[test]
    fn all_published_values_are_read() {
        assert_eq!(RECORDS.len(), 333);
        assert!(RECORDS.iter().all(|r| (0.1..1.0).contains(&r.value.mean)));
        assert_eq!(
            RECORDS.iter().filter(|r| r.value.std.is_some()).count(),
            81,
            "nine methods, three data sets, three ratios"
        );
    }

    #[test]
    fn a_value_is_shown_only_for_the_same_data_and_noise() {
        let published = |settings: serde_json::Value, metric: &str| {
            let run = fixture::run("ms", "", 0, 0.5);
            value(&ReportedRun { settings, ..run }, &Measure::named(metric)).map(|p| (p.mean, p.std))
        };
        let noisy =
            |ratio: f64| json!({ "data": { "source": "cub200" }, "noise": { "name": "uniform", "ratio": ratio } });
        assert_eq!(published(noisy(0.2), "recall@1"), Some((0.4768, Some(0.0016))));
        assert_eq!(published(noisy(0.25), "recall@1"), None);
        assert_eq!(published(noisy(0.2), "nmi"), None);
        let clean = |source: &str| json!({ "data": { "source": source }, "noise": { "name": "none" } });
        assert_eq!(published(clean("cars196"), "nmi"), Some((0.544, None)));
        assert_eq!(published(clean("strokes"), "nmi"), None);
        let removed = json!({ "data": { "source": "sop" }, "noise": { "name": "uniform", "ratio": 0.1, "remove_flipped": true } });
        assert_eq!(published(removed, "recall@1"), None);
    }
}
