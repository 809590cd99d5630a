//! The file list of a data source: its files and classes, before any image is opened.

use super::check::skipped;
use super::files::{Files, HashedFile};
use super::image_cache::ImageCache;
use super::inspect::{CheckLevel, inspect};
use super::{Dataset, Inputs, Split};
use crate::progress::{Bar, ProgressMode};
use crate::{Error, Result};
use curricle_recipe::{ImagesRecipe, OnBadImage};
use curricle_record::SkippedFile;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bad files that a warning names; the log lists all of them.
const NAMED: usize = 3;

/// The files of a data set with their classes, split into training and test set.
#[derive(Debug)]
pub(super) struct FileList {
    /// The folder all paths are relative to.
    pub root: PathBuf,
    /// The class names, indexed by label.
    pub class_names: Vec<String>,
    /// The training set.
    pub train: Vec<FileEntry>,
    /// The test set.
    pub test: Vec<FileEntry>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileEntry {
    /// Its path relative to the root, with `/` between folders.
    pub path: String,
    /// An index into the class names.
    pub class: usize,
    /// Whether it is a query, and so not part of the gallery.
    pub query: bool,
}

impl FileList {
    /// All samples are both training and test set.
    pub(crate) fn unsplit(root: PathBuf, class_names: Vec<String>, entries: Vec<FileEntry>) -> Self {
        Self { root, class_names, train: entries.clone(), test: entries }
    }

    /// The first half of the classes is the training set, the second half the test set.
    pub(super) fn halves(root: PathBuf, class_names: Vec<String>, entries: Vec<FileEntry>) -> Self {
        let half = class_names.len() / 2;
        let (train, test) = entries.into_iter().partition(|entry| entry.class < half);
        Self { root, class_names, train, test }
    }

    /// Refuses a file that is listed twice, even under different spellings of its path: it would count
    /// twice, or be in both splits.
    pub(crate) fn refuse_repeats(&self) -> Result<()> {
        // Without a split, both sets are the same files.
        let test: &[FileEntry] = if self.train == self.test { &[] } else { &self.test };
        let mut seen: HashMap<Cow<str>, &str> = HashMap::with_capacity(self.train.len() + test.len());
        for FileEntry { path, .. } in self.train.iter().chain(test) {
            if let Some(earlier) = seen.insert(tidy(path), path) {
                let message = if earlier == path {
                    format!("`{path}` is listed twice; list every file only once")
                } else {
                    format!("`{earlier}` and `{path}` are the same file; list every file only once")
                };
                return Err(Error::format(&self.root, message));
            }
        }
        Ok(())
    }

    /// All distinct files.
    pub(super) fn files(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let entries = self.train.iter().chain(&self.test).map(|entry| entry.path.as_str());
        entries.filter(|path| seen.insert(*path)).collect()
    }

    /// Checks all files and opens the data set.
    pub(super) fn open(self, images: &ImagesRecipe, cache: Option<&Path>, progress: ProgressMode) -> Result<Dataset> {
        let paths = self.files();
        let look = match images.on_bad_image {
            OnBadImage::Error => CheckLevel::Contents,
            OnBadImage::Skip => CheckLevel::Pixels,
        };
        tracing::info!("checking {} files in `{}`", paths.len(), self.root.display());
        let bar = Bar::new(progress, "checking files", paths.len() as u64);
        let findings = inspect(&self.root, &paths, look, &|| bar.advance());
        drop(bar);
        let (mut places, mut bad) = (HashMap::new(), Vec::new());
        for (path, finding) in paths.iter().zip(findings) {
            match finding {
                Ok(hash) => {
                    places.insert(*path, HashedFile { path: self.root.join(path), hash });
                }
                Err(error) => bad.push((*path, error)),
            }
        }
        let skipped = self.judge(images.on_bad_image, paths.len(), bad)?;
        let image_cache = match cache {
            Some(folder) => {
                let all: Vec<HashedFile> = places.values().cloned().collect();
                Some(Arc::new(ImageCache::open(folder, &all, images.shrink, progress)?))
            }
            None => None,
        };
        let settings = Arc::new(images.clone());
        let files = |places: Vec<HashedFile>| Files::new(places, settings.clone()).with_cache(image_cache.clone());
        let train = self.split(&self.train, "train", &places, files)?;
        let test = self.split(&self.test, "test", &places, files)?;
        let there = |entry: &&FileEntry| places.contains_key(entry.path.as_str());
        let query: Vec<bool> = self.test.iter().filter(there).map(|entry| entry.query).collect();
        let dataset = Dataset::new(train, test, query.contains(&true).then_some(query))?;
        Ok(Dataset { skipped, ..dataset })
    }

    /// Fails on bad files or skips them, as the policy says.
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
            return Err(Error::Failed(format!(
                "{first}{more}\nhelp: list all bad files with `curricle data check`, then repair or remove them, or \
                 skip them with `images.on_bad_image = \"skip\"`"
            )));
        }
        let skipped: Vec<SkippedFile> = bad.into_iter().map(|(path, error)| skipped(path, error)).collect();
        let named: Vec<String> = skipped.iter().take(NAMED).map(|file| format!("`{}`", file.path)).collect();
        let rest = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
        tracing::warn!(
            "skipping {count} of {files} files in `{}` that cannot be read: {}{rest}",
            self.root.display(),
            named.join(", ")
        );
        for SkippedFile { path, problem } in &skipped {
            tracing::info!("skipped: `{path}` {problem}");
        }
        Ok(skipped)
    }

    /// One split, without the files that have no place.
    fn split(
        &self,
        entries: &[FileEntry],
        what: &str,
        places: &HashMap<&str, HashedFile>,
        files: impl Fn(Vec<HashedFile>) -> Files,
    ) -> Result<Split> {
        let there = |entry: &&FileEntry| places.contains_key(entry.path.as_str());
        let entries: Vec<&FileEntry> = entries.iter().filter(there).collect();
        let labels: Vec<i64> = entries.iter().map(|entry| entry.class as i64).collect();
        let (labels, class_names) = super::split::close_gaps(&labels, &self.class_names);
        if class_names.len() < 2 {
            return Err(Error::format(
                &self.root,
                format!("the {what} split needs at least 2 classes, but has {}", class_names.len()),
            ));
        }
        let place = |entry: &&FileEntry| places.get(entry.path.as_str()).cloned();
        Ok(Split {
            inputs: Inputs::Files(files(entries.iter().filter_map(place).collect())),
            labels,
            class_names,
            paths: entries.iter().map(|entry| entry.path.clone()).collect(),
        })
    }
}

/// Normalises a path: `a/./b//../c.jpg` becomes `a/c.jpg`.
fn tidy(path: &str) -> Cow<'_, str> {
    let (start, rest) = path.strip_prefix('/').map_or(("", path), |rest| ("/", rest));
    // The common case, and there may be a million paths.
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

/// Images without a split, every one of which must be readable.
pub(crate) fn open_unsplit(
    root: &Path,
    entries: &[FileEntry],
    class_names: &[String],
    images: &ImagesRecipe,
) -> Result<Split> {
    let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    let hashes = inspect(root, &paths, CheckLevel::Contents, &|| ()).into_iter().collect::<Result<Vec<_>>>()?;
    let places = paths.iter().zip(hashes).map(|(path, hash)| HashedFile { path: root.join(path), hash });
    let labels: Vec<i64> = entries.iter().map(|entry| entry.class as i64).collect();
    let (labels, class_names) = super::split::close_gaps(&labels, class_names);
    Ok(Split {
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
    fn paths_are_normalised() {
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
    fn a_file_listed_twice_is_refused() {
        let entry = |path: &str| FileEntry { path: path.into(), class: 0, query: false };
        let catalogue = |train: &[&str], test: &[&str]| {
            let entries = |paths: &[&str]| paths.iter().map(|path| entry(path)).collect();
            FileList { root: "r".into(), class_names: vec!["c".into()], train: entries(train), test: entries(test) }
        };
        catalogue(&["a.png", "x/a.png"], &["b.png"]).refuse_repeats().unwrap();
        catalogue(&["a.png", "b.png"], &["a.png", "b.png"]).refuse_repeats().unwrap();
        let refused = |train: &[&str], test: &[&str]| catalogue(train, test).refuse_repeats().unwrap_err().to_string();
        let twice = "`r`: `a.png` is listed twice; list every file only once";
        assert_eq!(refused(&["a.png", "a.png"], &["b.png"]), twice);
        assert_eq!(refused(&["a.png", "a.png"], &["a.png", "a.png"]), twice);
        assert_eq!(refused(&["c.png", "a.png"], &["a.png"]), twice);
        let same = "`r`: `a.png` and `./a.png` are the same file; list every file only once";
        assert_eq!(refused(&["a.png"], &["b.png", "./a.png"]), same);
    }
}
