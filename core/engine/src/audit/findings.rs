//! The page's sections on the estimate, near-duplicates and images that belong to no class.
//!
//! A sample of these sections can be decided about like a suspect. For two near-duplicates with different labels,
//! the label of the other one is offered.

use super::thumbnails::{data_uri, thumbnails};
use super::{Audit, DuplicateKind, DuplicatePair};
use crate::Result;
use crate::data::Split;
use serde::Serialize;

/// Pairs of each kind and images of no class on the page; `audit.csv` and `--json` have all.
const ROWS: usize = 50;
/// Side in pixels of an image.
const SIDE: usize = 112;

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
    pairs: Vec<Pair<'a>>,
}

#[derive(Debug, Serialize)]
struct Pair<'a> {
    distance: String,
    members: [Member<'a>; 2],
}

#[derive(Debug, Serialize)]
struct FarSample<'a> {
    far: String,
    member: Member<'a>,
}

/// A sample that is shown. Test samples have no label here, and nothing is decided about them.
#[derive(Debug, Serialize)]
struct Member<'a> {
    path: &'a str,
    label: Option<&'a str>,
    /// The label that the decision to accept gives it.
    proposed: Option<&'a str>,
    image: Option<String>,
}

impl<'a> Findings<'a> {
    pub(super) fn of(audit: &'a Audit) -> Result<Self> {
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
        let mut duplicates = Vec::new();
        for (kind, title) in kinds {
            let pairs: Vec<_> = audit.duplicates.iter().filter(|pair| pair.kind == kind).collect();
            let shown = &pairs[..pairs.len().min(ROWS)];
            let (count, more) = (pairs.len(), pairs.len() - shown.len());
            if count > 0 {
                duplicates.push(PairGroup { title, count, more, pairs: self::pairs(audit, shown)? });
            }
        }
        let far = audit.no_class();
        let shown = &far[..far.len().min(ROWS)];
        let images = images(&audit.split, &shown.iter().map(|e| e.row).collect::<Vec<_>>())?;
        let one = |(e, image): (&&'a super::Evidence, Option<String>)| FarSample {
            far: format!("{:.1}", e.far),
            member: Member { path: &e.path, label: Some(audit.class(e.label)), proposed: None, image },
        };
        let no_class = shown.iter().zip(images).map(one).collect();
        Ok(Self { estimate, duplicates, no_class, more_no_class: far.len() - shown.len() })
    }

    /// Whether there is a sample to decide about.
    pub(super) fn has_samples(&self) -> bool {
        !self.duplicates.is_empty() || !self.no_class.is_empty()
    }
}

/// Pairs of one kind, with images.
fn pairs<'a>(audit: &'a Audit, pairs: &[&'a DuplicatePair]) -> Result<Vec<Pair<'a>>> {
    let Some(any) = pairs.first() else { return Ok(Vec::new()) };
    let first = images(&audit.split, &pairs.iter().map(|pair| pair.first).collect::<Vec<_>>())?;
    let second = images(audit.split_of_second(any), &pairs.iter().map(|pair| pair.second).collect::<Vec<_>>())?;
    let one = |((pair, first), second): ((&&'a DuplicatePair, _), _)| {
        let (paths, labels) = (audit.pair_paths(pair), audit.pair_labels(pair));
        let other = |label: Option<&'a str>| label.filter(|_| pair.kind == DuplicateKind::OtherClass);
        let (here, there) = (Some(labels.0), labels.1);
        let members = [
            Member { path: paths.0, label: here, proposed: other(there), image: first },
            Member { path: paths.1, label: there, proposed: other(here), image: second },
        ];
        Pair { distance: format!("{:.2}", pair.distance), members }
    };
    Ok(pairs.iter().zip(first).zip(second).map(one).collect())
}

/// The images of some rows; `None` for each if the data set has no images.
fn images(split: &Split, rows: &[usize]) -> Result<Vec<Option<String>>> {
    match thumbnails(&split.inputs, rows, SIDE)? {
        Some(images) => images.iter().map(|image| data_uri(image).map(Some)).collect(),
        None => Ok(vec![None; rows.len()]),
    }
}
