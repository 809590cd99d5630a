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
    #[serde(rename = "parts")]
    pub splits: Vec<SplitReport>,
    /// Number of files checked.
    pub files: usize,
    /// Files that cannot be used.
    pub bad: Vec<SkippedFile>,
    /// Files and folders that are not part of the data set, and why.
    pub ignored: Vec<SkippedFile>,
}

/// The size of a split.
#[derive(Debug, Serialize)]
pub struct SplitReport {
    /// `train`, `test`, or `query` and `gallery`.
    #[serde(rename = "part")]
    pub split: &'static str,
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
    let list = match sources::list(recipe)? {
        Listed::Files(list) => list,
        Listed::Memory(whole) => {
            let (train, test) = class_split::by_class(&whole)?;
            let sizes = |part: &Split| part.class_sizes();
            let splits = vec![report("train", &sizes(&train)), report("test", &sizes(&test))];
            return Ok(DataReport { root: None, splits, files: 0, bad: Vec::new(), ignored: Vec::new() });
        }
    };
    let paths = list.files();
    begin(paths.len());
    let findings = inspect(&list.root, &paths, CheckLevel::Uncached, seen);
    let bad = paths.iter().zip(findings).filter_map(|(path, finding)| Some(skipped(path, finding.err()?)));
    let bad = bad.collect();
    let ignored = match recipe {
        DataRecipe::Folder(folder) => sources::ignored_in_folder(&folder.path)?,
        _ => Vec::new(),
    };
    Ok(DataReport { splits: splits(&list), files: paths.len(), bad, ignored, root: Some(list.root) })
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

pub(super) fn splits(list: &FileList) -> Vec<SplitReport> {
    let sizes = |entries: &mut dyn Iterator<Item = &FileEntry>| {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        entries.for_each(|entry| *sizes.entry(entry.class).or_default() += 1);
        sizes.into_values().collect::<Vec<_>>()
    };
    let mut splits = vec![report("train", &sizes(&mut list.train.iter()))];
    if list.test.iter().any(|entry| entry.query) {
        splits.push(report("query", &sizes(&mut list.test.iter().filter(|entry| entry.query))));
        splits.push(report("gallery", &sizes(&mut list.test.iter().filter(|entry| !entry.query))));
    } else {
        splits.push(report("test", &sizes(&mut list.test.iter())));
    }
    splits
}

pub(super) fn report(split: &'static str, sizes: &[usize]) -> SplitReport {
    SplitReport {
        split,
        classes: sizes.len(),
        samples: sizes.iter().sum(),
        smallest_class: sizes.iter().copied().min().unwrap_or(0),
        largest_class: sizes.iter().copied().max().unwrap_or(0),
    }
}
