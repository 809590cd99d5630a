//! What a source says of its samples, before any picture is opened.

use super::check::skipped;
use super::files::{Files, Place};
use super::inspect::{Look, inspect};
use super::packed::Packed;
use super::{Dataset, Inputs, Part};
use crate::progress::Bar;
use crate::progress::ProgressMode;
use crate::{Error, Result};
use curricle_recipe::{ImagesRecipe, OnBadImage};
use curricle_record::SkippedFile;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
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

    /// Refuses a file that is listed twice, however it is written: it would count twice, or train and
    /// test.
    pub fn refuse_repeats(&self) -> Result<()> {
        // What is not split at all trains and tests with the same files.
        let test: &[Entry] = if self.train == self.test { &[] } else { &self.test };
        let mut seen: HashMap<Cow<str>, &str> = HashMap::with_capacity(self.train.len() + test.len());
        for Entry { path, .. } in self.train.iter().chain(test) {
            if let Some(earlier) = seen.insert(tidy(path), path) {
                let message = if earlier == path {
                    format!("`{path}` is listed twice; every file may be listed once")
                } else {
                    format!("`{earlier}` and `{path}` are the same file; every file may be listed once")
                };
                return Err(Error::format(&self.root, message));
            }
        }
        Ok(())
    }

    /// All files, each once.
    pub fn files(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let entries = self.train.iter().chain(&self.test).map(|entry| entry.path.as_str());
        entries.filter(|path| seen.insert(*path)).collect()
    }

    /// Looks at all files and makes a data set of them.
    pub fn open(self, images: &ImagesRecipe, cache: Option<&Path>, progress: ProgressMode) -> Result<Dataset> {
        let paths = self.files();
        let look = match images.on_bad_image {
            OnBadImage::Error => Look::Contents,
            OnBadImage::Skip => Look::Pixels,
        };
        tracing::info!("looking at {} files in `{}`", paths.len(), self.root.display());
        let bar = Bar::new(progress, "looking at files", paths.len() as u64);
        let findings = inspect(&self.root, &paths, look, &|| bar.advance());
        drop(bar);
        let (mut places, mut bad) = (HashMap::new(), Vec::new());
        for (path, finding) in paths.iter().zip(findings) {
            match finding {
                Ok(hash) => {
                    places.insert(*path, Place { path: self.root.join(path), hash });
                }
                Err(error) => bad.push((*path, error)),
            }
        }
        let skipped = self.judge(images.on_bad_image, paths.len(), bad)?;
        let packed = match cache {
            Some(folder) => {
                let all: Vec<Place> = places.values().cloned().collect();
                Some(Arc::new(Packed::open(folder, &all, images.shrink, progress)?))
            }
            None => None,
        };
        let settings = Arc::new(images.clone());
        let files = |places: Vec<Place>| Files::new(places, settings.clone()).with_cache(packed.clone());
        let train = self.part(&self.train, "train", &places, files)?;
        let test = self.part(&self.test, "test", &places, files)?;
        let there = |entry: &&Entry| places.contains_key(entry.path.as_str());
        let query: Vec<bool> = self.test.iter().filter(there).map(|entry| entry.query).collect();
        let dataset = Dataset::new(train, test, query.contains(&true).then_some(query))?;
        Ok(Dataset { skipped, ..dataset })
    }

    /// What to do about bad files.
    fn judge(&self, policy: OnBadImage, files: usize, bad: Vec<(&str, Error)>) -> Result<Vec<SkippedFile>> {
        let count = bad.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        if policy == OnBadImage::Error || count == files {
            let more = if count > 1 {
                format!(" ({} of {files} files in `{}` cannot be read)", count, self.root.display())
            } else {
                String::new()
            };
            let first = bad.into_iter().next().map(|(_, error)| error.to_string()).unwrap_or_default();
            return Err(Error::Failed(format!("{first}{more}; `curricle data check` lists all bad files")));
        }
        let skipped: Vec<SkippedFile> = bad.into_iter().map(|(path, error)| skipped(path, error)).collect();
        tracing::warn!("{count} of {files} files in `{}` are bad and left out", self.root.display());
        for SkippedFile { path, problem } in &skipped {
            tracing::info!("left out: `{path}` {problem}");
        }
        Ok(skipped)
    }

    /// A part, without the files that have no place.
    fn part(
        &self,
        entries: &[Entry],
        what: &str,
        places: &HashMap<&str, Place>,
        files: impl Fn(Vec<Place>) -> Files,
    ) -> Result<Part> {
        let there = |entry: &&Entry| places.contains_key(entry.path.as_str());
        let entries: Vec<&Entry> = entries.iter().filter(there).collect();
        let labels: Vec<i64> = entries.iter().map(|entry| entry.class as i64).collect();
        let (labels, class_names) = super::part::close_gaps(&labels, &self.class_names);
        if class_names.len() < 2 {
            return Err(Error::format(
                &self.root,
                format!("has {} classes to {what}, but two are needed", class_names.len()),
            ));
        }
        let place = |entry: &&Entry| places.get(entry.path.as_str()).cloned();
        Ok(Part {
            inputs: Inputs::Files(files(entries.iter().filter_map(place).collect())),
            labels,
            class_names,
            paths: entries.iter().map(|entry| entry.path.clone()).collect(),
        })
    }
}

/// `a/./b//../c.jpg` as people write it: `a/c.jpg`.
fn tidy(path: &str) -> Cow<'_, str> {
    let (start, rest) = path.strip_prefix('/').map_or(("", path), |rest| ("/", rest));
    // Almost all paths, and there may be a million of them.
    if !rest.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return path.into();
    }
    let mut names: Vec<&str> = Vec::new();
    for name in rest.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            other => names.push(other),
        }
    }
    format!("{start}{}", names.join("/")).into()
}

/// Pictures that are no data set: nothing is split, and every one of them must be readable.
pub fn part_of(root: &Path, entries: &[Entry], class_names: &[String], images: &ImagesRecipe) -> Result<Part> {
    let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    let hashes = inspect(root, &paths, Look::Contents, &|| ()).into_iter().collect::<Result<Vec<_>>>()?;
    let places = paths.iter().zip(hashes).map(|(path, hash)| Place { path: root.join(path), hash });
    let labels: Vec<i64> = entries.iter().map(|entry| entry.class as i64).collect();
    let (labels, class_names) = super::part::close_gaps(&labels, class_names);
    Ok(Part {
        inputs: Inputs::Files(Files::new(places, Arc::new(images.clone()))),
        labels,
        class_names,
        paths: entries.iter().map(|entry| entry.path.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_tidied() {
        for (path, tidied) in [
            ("imgs/a/0.png", "imgs/a/0.png"),
            ("./imgs/a/0.png", "imgs/a/0.png"),
            ("imgs//a/./0.png", "imgs/a/0.png"),
            ("imgs/b/../a/0.png", "imgs/a/0.png"),
            ("../../a/../0.png", "../../0.png"),
            ("/imgs/./0.png", "/imgs/0.png"),
            ("...png", "...png"),
        ] {
            assert_eq!(tidy(path), tidied, "{path}");
        }
        assert!(matches!(tidy("/imgs/a/0.png"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_file_is_listed_once() {
        let entry = |path: &str| Entry { path: path.into(), class: 0, query: false };
        let catalogue = |train: &[&str], test: &[&str]| {
            let entries = |paths: &[&str]| paths.iter().map(|path| entry(path)).collect();
            Catalogue { root: "r".into(), class_names: vec!["c".into()], train: entries(train), test: entries(test) }
        };
        catalogue(&["a.png", "x/a.png"], &["b.png"]).refuse_repeats().unwrap();
        catalogue(&["a.png", "b.png"], &["a.png", "b.png"]).refuse_repeats().unwrap();
        let refused = |train: &[&str], test: &[&str]| catalogue(train, test).refuse_repeats().unwrap_err().to_string();
        let twice = "`r`: `a.png` is listed twice; every file may be listed once";
        assert_eq!(refused(&["a.png", "a.png"], &["b.png"]), twice);
        assert_eq!(refused(&["a.png", "a.png"], &["a.png", "a.png"]), twice);
        assert_eq!(refused(&["c.png", "a.png"], &["a.png"]), twice);
        let same = "`r`: `a.png` and `./a.png` are the same file; every file may be listed once";
        assert_eq!(refused(&["a.png"], &["b.png", "./a.png"]), same);
    }
}
