//! `audit.csv`: every sample with all numbers, most suspicious first.

use super::{Audit, DuplicateKind};
use crate::{Error, Result};
use curricle_record::files;
use std::path::Path;

const TITLES: [&str; 22] = [
    "rank",
    "sample",
    "path",
    "label",
    "proposed",
    "suspected",
    "suspicion",
    "confidence",
    "weight",
    "votes_for_label",
    "voted",
    "votes_for_voted",
    "neighbours_agreeing",
    "similarity_label",
    "similarity_proposed",
    "xi_pos",
    "xi_neg",
    "duplicate_of",
    "duplicate_kind",
    "far",
    "no_class",
    "original",
];

/// Writes the table. The last column, the original label, is present only if it is known.
pub(super) fn write(path: &Path, audit: &Audit) -> Result<()> {
    Ok(files::write(path, &text(audit)?)?)
}

fn text(audit: &Audit) -> Result<Vec<u8>> {
    let failed = |e: csv::Error| Error::encode("the table of samples")(e);
    let known = audit.known.is_some();
    let columns = if known { TITLES.len() } else { TITLES.len() - 1 };
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(&TITLES[..columns]).map_err(failed)?;
    for (rank, e) in audit.ranked.iter().enumerate() {
        let number = |value: f64| format!("{value:.4}");
        let duplicate = e.duplicate.map(|at| &audit.duplicates[at]);
        let duplicate_of = duplicate.map_or("", |pair| match (audit.pair_paths(pair), pair.second == e.row) {
            ((first, _), true) if pair.kind != DuplicateKind::TrainAndTest => first,
            ((_, second), _) => second,
        });
        let mut record = vec![
            (rank + 1).to_string(),
            e.sample.to_string(),
            e.path.clone(),
            audit.class(e.label).to_string(),
            audit.class(e.proposed).to_string(),
            e.suspected.to_string(),
            number(e.suspicion),
            number(e.confidence),
            number(e.weight),
            number(e.given_share),
            audit.class(e.voted).to_string(),
            number(e.voted_share),
            number(e.agreeing),
            number(e.similarity_given),
            number(e.similarity_proposed),
            number(e.xi_pos),
            number(e.xi_neg),
            duplicate_of.to_string(),
            duplicate.map_or("", |pair| pair.kind.name()).to_string(),
            number(e.far),
            e.no_class.to_string(),
        ];
        record.extend(known.then(|| e.original.clone().unwrap_or_default()));
        table.write_record(&record).map_err(failed)?;
    }
    table.into_inner().map_err(|e| Error::encode("the table of samples")(e.to_string()))
}
