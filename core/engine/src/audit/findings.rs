//! The page's sections on the estimate, near-duplicates and images that belong to no class.

use super::{Audit, DuplicateKind};
use serde::Serialize;

/// Rows of each table on the page; `audit.csv` and `--json` have all.
const ROWS: usize = 50;

/// What the sections show.
#[derive(Debug, Serialize)]
pub(super) struct Findings<'a> {
    estimate: Option<EstimateText>,
    duplicates: Vec<PairGroup<'a>>,
    no_class: Vec<FarSample<'a>>,
    more_no_class: usize,
}

#[derive(Debug, Serialize)]
struct EstimateText {
    wrong: String,
    share: String,
    random: String,
    confused: String,
    unjudged: usize,
}

/// The pairs of one kind.
#[derive(Debug, Serialize)]
struct PairGroup<'a> {
    title: &'static str,
    count: usize,
    more: usize,
    pairs: Vec<PairRow<'a>>,
}

#[derive(Debug, Serialize)]
struct PairRow<'a> {
    first: &'a str,
    second: &'a str,
    labels: (&'a str, Option<&'a str>),
    distance: String,
}

#[derive(Debug, Serialize)]
struct FarSample<'a> {
    path: &'a str,
    label: &'a str,
    far: String,
}

impl<'a> Findings<'a> {
    pub(super) fn of(audit: &'a Audit) -> Self {
        let estimate = audit.estimate.map(|estimate| EstimateText {
            wrong: format!("{:.0}", estimate.wrong),
            share: format!("{:.1}", 100.0 * estimate.wrong / estimate.judged.max(1) as f64),
            random: format!("{:.0}", estimate.random),
            confused: format!("{:.0}", estimate.confused),
            unjudged: audit.ranked.len() - estimate.judged,
        });
        let kinds = [
            (DuplicateKind::OtherClass, "With different labels: one of them must be wrong"),
            (DuplicateKind::TrainAndTest, "In the training and in the test set: the test set leaks"),
            (DuplicateKind::SameClass, "With the same label"),
        ];
        let duplicates = kinds.into_iter().map(|(kind, title)| {
            let count = audit.duplicates.iter().filter(|pair| pair.kind == kind).count();
            let pairs = audit.duplicates.iter().filter(|pair| pair.kind == kind).take(ROWS);
            let row = |pair| {
                let (first, second) = audit.pair_paths(pair);
                PairRow { first, second, labels: audit.pair_labels(pair), distance: format!("{:.2}", pair.distance) }
            };
            PairGroup { title, count, more: count.saturating_sub(ROWS), pairs: pairs.map(row).collect() }
        });
        let far = audit.no_class();
        let row = |e: &&'a super::Evidence| FarSample {
            path: &e.path,
            label: audit.class(e.label),
            far: format!("{:.1}", e.far),
        };
        Self {
            estimate,
            duplicates: duplicates.filter(|group| group.count > 0).collect(),
            no_class: far.iter().take(ROWS).map(row).collect(),
            more_no_class: far.len().saturating_sub(ROWS),
        }
    }
}
