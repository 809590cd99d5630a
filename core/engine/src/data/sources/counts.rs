//! The sizes of published data sets.

use crate::data::file_list::{FileEntry, FileList};
use crate::{Error, Result};
use std::collections::BTreeSet;

/// The number of classes and images in a split.
pub(super) struct Counts {
    /// `training`, `test`, …
    pub part: &'static str,
    /// Number of classes.
    pub classes: usize,
    /// Number of images.
    pub images: usize,
    /// Which of the training or test entries belong to it.
    pub belongs: fn(&FileEntry) -> bool,
}

impl Counts {
    /// Counts over all entries.
    pub(super) fn all(part: &'static str, classes: usize, images: usize) -> Self {
        Self { part, classes, images, belongs: |_| true }
    }
}

/// Refuses a file list that is not the complete published data set, and says what is missing.
pub(super) fn check(list: &FileList, set: &str, train: &Counts, test: &[Counts]) -> Result<()> {
    let mut wrong = Vec::new();
    let mut compare = |counts: &Counts, entries: &[FileEntry]| {
        let entries: Vec<_> = entries.iter().filter(|entry| (counts.belongs)(entry)).collect();
        let classes = entries.iter().map(|entry| entry.class).collect::<BTreeSet<_>>().len();
        for (what, found, wanted) in [("classes", classes, counts.classes), ("images", entries.len(), counts.images)] {
            if found != wanted {
                wrong.push(format!("{} {what}: {found} instead of {wanted}", counts.part));
            }
        }
    };
    compare(train, &list.train);
    test.iter().for_each(|counts| compare(counts, &list.test));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::format(
        &list.root,
        format!(
            "is not the complete {set} ({}). Get the missing files, or set `data.check_counts = false` to use it as \
             it is (results are then not comparable with published ones)",
            wrong.join(", ")
        ),
    ))
}
