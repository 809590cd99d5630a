//! `curricle data check`: decodes every file of a data set before training.

use super::file_list::{FileEntry, FileList};
use super::inspect::{CheckLevel, inspect};
use super::sources::{self, Listed};
use super::{Split, class_split};
use crate::{Error, Result};
use curricle_recipe::DataRecipe;
use curricle_record::{self as record, SkippedFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The size of a data set and its bad files.
#[derive(Debug, Serialize)]
pub struct DataReport {
    /// The folder of the images; `None` if samples are not files.
    pub root: Option<PathBuf>,
    /// The splits.
    pub parts: Vec<SplitReport>,
    /// Number of files checked.
    pub files: usize,
    /// Files that cannot be used.
    pub bad: Vec<SkippedFile>,
}

/// The size of a split.
#[derive(Debug, Serialize)]
pub struct SplitReport {
    /// `train`, `test`, or `query` and `gallery`.
    pub part: &'static str,
    /// Number of classes.
    pub classes: usize,
    /// Number of samples.
    pub samples: usize,
    /// Number of samples in the smallest class.
    pub smallest_class: usize,
    /// Number of samples in the largest class.
    pub largest_class: usize,
}

/// Lists a data set and decodes each of its files. `begin` receives their number, `seen` is called after each.
pub fn check(recipe: &DataRecipe, begin: impl FnOnce(usize), seen: &(dyn Fn() + Sync)) -> Result<DataReport> {
    let catalogue = match sources::list(recipe)? {
        Listed::Files(catalogue) => catalogue,
        Listed::Memory(whole) => {
            let (train, test) = class_split::by_class(&whole)?;
            let sizes = |part: &Split| part.class_sizes();
            let parts = vec![part("train", &sizes(&train)), part("test", &sizes(&test))];
            return Ok(DataReport { root: None, parts, files: 0, bad: Vec::new() });
        }
    };
    let paths = catalogue.files();
    begin(paths.len());
    let findings = inspect(&catalogue.root, &paths, CheckLevel::Uncached, seen);
    let bad = paths.iter().zip(findings).filter_map(|(path, finding)| Some(skipped(path, finding.err()?)));
    let bad = bad.collect();
    Ok(DataReport { parts: parts(&catalogue), files: paths.len(), bad, root: Some(catalogue.root) })
}

/// A file of the data set and what is wrong with it.
pub(super) fn skipped(path: &str, error: Error) -> SkippedFile {
    let problem = match error {
        Error::Record(record::Error::Format { message, .. }) => message,
        Error::Record(record::Error::File { source, .. }) => format!("cannot be read: {source}"),
        other => other.to_string(),
    };
    SkippedFile { path: path.to_string(), problem }
}

fn parts(catalogue: &FileList) -> Vec<SplitReport> {
    let sizes = |entries: &mut dyn Iterator<Item = &FileEntry>| {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        entries.for_each(|entry| *sizes.entry(entry.class).or_default() += 1);
        sizes.into_values().collect::<Vec<_>>()
    };
    let mut parts = vec![part("train", &sizes(&mut catalogue.train.iter()))];
    if catalogue.test.iter().any(|entry| entry.query) {
        parts.push(part("query", &sizes(&mut catalogue.test.iter().filter(|entry| entry.query))));
        parts.push(part("gallery", &sizes(&mut catalogue.test.iter().filter(|entry| !entry.query))));
    } else {
        parts.push(part("test", &sizes(&mut catalogue.test.iter())));
    }
    parts
}

fn part(part: &'static str, sizes: &[usize]) -> SplitReport {
    SplitReport {
        part,
        classes: sizes.len(),
        samples: sizes.iter().sum(),
        smallest_class: sizes.iter().copied().min().unwrap_or(0),
        largest_class: sizes.iter().copied().max().unwrap_or(0),
    }
}
