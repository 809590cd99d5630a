//! The labels after correcting suspects: a list that recipes can read.

use super::{Audit, Decision, Decisions, Evidence};
use crate::{Error, Result};
use curricle_record::files;
use serde::Serialize;
use std::path::Path;

/// What to do with suspects. Other samples are never changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Minimum confidence for a suspect to get the proposed label; `None` relabels nothing.
    pub relabel_above: Option<f64>,
    /// What happens to the other suspects.
    pub others: UnsureSuspects,
}

/// What happens to suspects that do not get a new label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsureSuspects {
    /// They keep their label.
    Keep,
    /// They are dropped.
    Drop,
}

/// The cleaned labels and their counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cleaned {
    /// Samples that a person decided about.
    pub decided: usize,
    /// Samples whose label changed.
    pub relabelled: usize,
    /// Samples dropped.
    pub dropped: usize,
    /// Samples in the list.
    pub listed: usize,
    /// Share of wrong labels before cleaning, if known.
    pub wrong_before: Option<f64>,
    /// Share of wrong labels in the list, if known.
    pub wrong_after: Option<f64>,
    #[serde(skip)]
    rows: Vec<(String, String)>,
}

impl Cleaned {
    pub(super) fn new(audit: &Audit, policy: &Policy, decisions: Option<&Decisions>) -> Self {
        let mut in_order: Vec<&Evidence> = audit.ranked.iter().collect();
        in_order.sort_by_key(|e| e.row);
        let mut cleaned = Self {
            decided: 0,
            relabelled: 0,
            dropped: 0,
            listed: 0,
            wrong_before: None,
            wrong_after: None,
            rows: Vec::new(),
        };
        let (mut wrong_before, mut wrong_after) = (0, 0);
        let is_wrong = |e: &Evidence, label: &str| e.original.as_deref().is_some_and(|original| original != label);
        for e in in_order {
            wrong_before += usize::from(is_wrong(e, audit.class(e.label)));
            let decision = decisions.and_then(|decisions| decisions.about(&e.path));
            cleaned.decided += usize::from(decision.is_some());
            let label = match decision {
                Some(Decision::Label(label)) => Some(*label),
                Some(Decision::Drop) => None,
                None => policy.label(e),
            };
            let Some(label) = label else {
                cleaned.dropped += 1;
                continue;
            };
            cleaned.relabelled += usize::from(label != e.label);
            wrong_after += usize::from(is_wrong(e, audit.class(label)));
            cleaned.rows.push((e.path.clone(), audit.class(label).to_string()));
        }
        cleaned.listed = cleaned.rows.len();
        if audit.known.is_some() {
            cleaned.wrong_before = Some(wrong_before as f64 / audit.ranked.len().max(1) as f64);
            cleaned.wrong_after = Some(wrong_after as f64 / cleaned.listed.max(1) as f64);
        }
        cleaned
    }

    /// Writes `path,label`, one line for each remaining sample, in data set order.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |e: csv::Error| Error::encode("the cleaned labels")(e);
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(["path", "label"]).map_err(failed)?;
        for (path, label) in &self.rows {
            table.write_record([path, label]).map_err(failed)?;
        }
        Ok(files::write(path, &table.into_inner().map_err(|e| Error::encode("the cleaned labels")(e.to_string()))?)?)
    }
}

impl Policy {
    /// The label a sample gets, or `None` if it is dropped.
    fn label(&self, evidence: &Evidence) -> Option<i64> {
        match (evidence.suspected, self.relabel_above, self.others) {
            (false, _, _) => Some(evidence.label),
            (true, Some(above), _) if evidence.confidence >= above => Some(evidence.proposed),
            (true, _, UnsureSuspects::Keep) => Some(evidence.label),
            (true, _, UnsureSuspects::Drop) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::evidence::example;

    #[test]
    fn only_suspects_are_changed_and_only_confident_ones_relabelled() {
        let (sure, unsure) = (example(0, 0.0, 0.95), example(1, 0.0, 0.6));
        let trusted = Evidence { suspected: false, ..example(2, 1.0, 0.95) };
        let labels = |relabel_above, others| {
            [&sure, &unsure, &trusted].map(|evidence| Policy { relabel_above, others }.label(evidence))
        };
        assert_eq!(labels(Some(0.9), UnsureSuspects::Keep), [Some(1), Some(0), Some(0)]);
        assert_eq!(labels(Some(0.9), UnsureSuspects::Drop), [Some(1), None, Some(0)]);
        assert_eq!(labels(None, UnsureSuspects::Drop), [None, None, Some(0)]);
        assert_eq!(labels(Some(0.0), UnsureSuspects::Keep), [Some(1), Some(1), Some(0)]);
    }
}
