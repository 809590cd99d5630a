//! The sizes of published data sets.

use crate::data::catalogue::{Catalogue, Entry};
use crate::{Error, Result};
use std::collections::BTreeSet;

/// How many classes and pictures a part has.
pub struct Counts {
    /// `training`, `test`, …
    pub part: &'static str,
    /// Its classes.
    pub classes: usize,
    /// Its pictures.
    pub images: usize,
    /// Which entries belong to it, of those that train or of those that test.
    pub belongs: fn(&Entry) -> bool,
}

impl Counts {
    /// Of all entries.
    pub fn all(part: &'static str, classes: usize, images: usize) -> Self {
        Self { part, classes, images, belongs: |_| true }
    }
}

/// Refuses a catalogue that is not the whole published set, and says what is missing.
pub fn check(catalogue: &Catalogue, set: &str, train: &Counts, test: &[Counts]) -> Result<()> {
    let mut wrong = Vec::new();
    let mut compare = |counts: &Counts, entries: &[Entry]| {
        let entries: Vec<_> = entries.iter().filter(|entry| (counts.belongs)(entry)).collect();
        let classes = entries.iter().map(|entry| entry.class).collect::<BTreeSet<_>>().len();
        for (what, found, wanted) in [("classes", classes, counts.classes), ("images", entries.len(), counts.images)] {
            if found != wanted {
                wrong.push(format!("{found} {} {what} instead of {wanted}", counts.part));
            }
        }
    };
    compare(train, &catalogue.train);
    test.iter().for_each(|counts| compare(counts, &catalogue.test));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::format(
        &catalogue.root,
        format!(
            "is not all of {set}: its lists have {}. Get the missing files, or write `data.check_counts = false` to use \
             what is there (results then compare with nobody else's)",
            wrong.join(", ")
        ),
    ))
}
