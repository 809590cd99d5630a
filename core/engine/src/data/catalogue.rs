//! What a source says of its samples, before any picture is opened.

use super::files::{Files, Place};
use super::{Dataset, Inputs, Part};
use crate::recipe::ImagesRecipe;
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files, their classes, and which of them train and test.
#[derive(Debug)]
pub struct Catalogue {
    /// The folder all paths are relative to.
    pub root: PathBuf,
    /// The classes, in the order of their labels.
    pub class_names: Vec<String>,
    /// What trains.
    pub train: Vec<Entry>,
    /// What tests.
    pub test: Vec<Entry>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its file, with `/` between folders.
    pub path: String,
    /// An index into the class names.
    pub class: usize,
    /// Whether it searches and cannot be found.
    pub query: bool,
}

impl Catalogue {
    /// Every sample trains, and the same samples test.
    pub fn unsplit(root: PathBuf, class_names: Vec<String>, entries: Vec<Entry>) -> Self {
        Self { root, class_names, train: entries.clone(), test: entries }
    }

    /// The first half of the classes trains, the second half tests.
    pub fn halves(root: PathBuf, class_names: Vec<String>, entries: Vec<Entry>) -> Self {
        let half = class_names.len() / 2;
        let (train, test) = entries.into_iter().partition(|entry| entry.class < half);
        Self { root, class_names, train, test }
    }

    /// Reads all files once to know their contents, and makes a data set of them.
    pub fn open(self, images: &ImagesRecipe) -> Result<Dataset> {
        check(images)?;
        for (entries, what) in [(&self.train, "train"), (&self.test, "test")] {
            let classes: BTreeSet<usize> = entries.iter().map(|entry| entry.class).collect();
            if classes.len() < 2 {
                return Err(Error::Format {
                    path: self.root,
                    message: format!("has {} classes to {what}, but two are needed", classes.len()),
                });
            }
        }
        let settings = Arc::new(images.clone());
        let train = self.part(&self.train, &settings)?;
        let test = self.part(&self.test, &settings)?;
        let query = self.test.iter().any(|entry| entry.query);
        let query = query.then(|| self.test.iter().map(|entry| entry.query).collect());
        Dataset::new(train, test, query)
    }

    fn part(&self, entries: &[Entry], settings: &Arc<ImagesRecipe>) -> Result<Part> {
        part(&self.root, entries, &self.class_names, settings)
    }
}

/// Pictures that are no data set: nothing is split.
pub fn part_of(root: &Path, entries: &[Entry], class_names: &[String], images: &ImagesRecipe) -> Result<Part> {
    check(images)?;
    part(root, entries, class_names, &Arc::new(images.clone()))
}

fn part(root: &Path, entries: &[Entry], class_names: &[String], settings: &Arc<ImagesRecipe>) -> Result<Part> {
    let places = entries.par_iter().map(|entry| place(root, entry)).collect::<Result<Vec<_>>>()?;
    let labels: Vec<i64> = entries.iter().map(|entry| entry.class as i64).collect();
    let (labels, class_names) = super::part::close_gaps(&labels, class_names);
    Ok(Part {
        inputs: Inputs::Files(Files::new(places, settings.clone())),
        labels,
        class_names,
        paths: entries.iter().map(|entry| entry.path.clone()).collect(),
    })
}

fn place(root: &Path, entry: &Entry) -> Result<Place> {
    let path = root.join(&entry.path);
    let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
    Ok(Place { hash: blake3::hash(&bytes), path })
}

/// Refuses settings that contradict each other.
fn check(images: &ImagesRecipe) -> Result<()> {
    let (size, resize) = (images.size, images.resize());
    if resize < size {
        return Err(Error::Usage(format!(
            "`images.resize` is {resize}, less than `images.size`, {size}: what is cut out must fit into the picture"
        )));
    }
    Ok(())
}
