//! The folder of one run.

use crate::folder_name::folder_name;
use crate::metrics_file::{self, Scalar};
use crate::samples::SampleTable;
use crate::{Error, FORMAT, Manifest, Result, RunResult, files};
use serde_json::Value;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that only checks whether a folder is locked holds the lock for a moment, so locking is retried.
const ATTEMPTS: usize = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

const RESULT: &str = "result.json";
const MODEL: &str = "model.safetensors";
const CHECKPOINTS: &str = "checkpoints";
const LOCK: &str = ".lock";

/// The folder of a run: the path of every file in it, and the readers of those files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

/// The names that a run's folder shows.
#[derive(Debug, Clone, Copy)]
pub struct RunLabels<'a> {
    /// The recipe's name; that of the whole sweep for one of its runs.
    pub recipe: &'a str,
    /// The method's name in tables.
    pub method: &'a str,
    /// The case's name in tables; empty if it has none.
    pub case: &'a str,
}

/// A run folder that this process alone may write to, until the value is dropped.
#[derive(Debug)]
pub struct LockedRun {
    folder: RunFolder,
    // Held until the run ends, however it ends: the operating system releases it with the process.
    _lock: File,
}

impl RunFolder {
    /// The run in this folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The folder of a run below `out`: `<out>/<recipe>/<method>-<case>-<hash>/seed-<seed>`.
    ///
    /// TensorBoard names runs after their folders, so method and case come first; the hash alone decides
    /// which runs are repetitions of each other. Version 0.2.0 kept the `+` of methods such as `ms+knn`; its runs stay
    /// where they are.
    pub fn below(out: &Path, labels: &RunLabels, hash: &str, seed: u64) -> Self {
        let short = hash.get(..8).unwrap_or(hash);
        let parts = [folder_name(&[labels.method, labels.case]), short.into()];
        let folder = |named: &str| out.join(labels.recipe).join(named).join(format!("seed-{seed}"));
        let path = folder(&parts.join("-"));
        let with_plus: Vec<_> = labels.method.split('+').map(|part| folder_name(&[part])).collect();
        let parts = [with_plus.join("+"), folder_name(&[labels.case]), short.into()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let before = folder(&parts.join("-"));
        Self::new(if !path.exists() && before.exists() { before } else { path })
    }

    /// The run that a path names: its folder, or the `result.json` in it, which shells complete to.
    pub fn named_by(path: &Path) -> Self {
        match path.file_name() {
            Some(name) if name == RESULT => {
                Self::new(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
            }
            _ => Self::new(path),
        }
    }

    /// Whether the folder belongs to a run, finished or not.
    pub fn is_run(&self) -> bool {
        [self.result(), self.manifest(), self.recipe()].iter().any(|file| file.is_file())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `recipe.toml`: the resolved recipe; it alone reproduces the run.
    pub fn recipe(&self) -> PathBuf {
        self.path.join("recipe.toml")
    }

    /// `manifest.json`: the conditions of the run; written before training.
    pub fn manifest(&self) -> PathBuf {
        self.path.join("manifest.json")
    }

    /// `result.json`: the result of the run; written last.
    pub fn result(&self) -> PathBuf {
        self.path.join(RESULT)
    }

    /// `metrics.jsonl`: every scalar and histogram.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// `labels.csv`: the training labels, original and noisy.
    pub fn labels(&self) -> PathBuf {
        self.path.join("labels.csv")
    }

    /// `samples.csv`: weights and diagnostics of each training sample.
    pub fn samples(&self) -> PathBuf {
        self.path.join("samples.csv")
    }

    /// `model.safetensors`: the trained network.
    pub fn model(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// `checkpoints`: what an interrupted run resumes from.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// `retrieval.png`: test samples and their nearest neighbours.
    pub fn retrieval(&self) -> PathBuf {
        self.path.join("retrieval.png")
    }

    /// `log.txt`: what happened.
    pub fn log(&self) -> PathBuf {
        self.path.join("log.txt")
    }

    /// `error.txt`: why the last attempt failed; the next attempt removes it.
    pub fn error(&self) -> PathBuf {
        self.path.join("error.txt")
    }

    fn lock_file(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// The run that a model file belongs to: its `model.safetensors`, or a file in its `checkpoints`.
    pub fn of_model_file(file: &Path) -> Option<Self> {
        let parent = file.parent()?;
        let folder = match file.file_name() {
            Some(name) if name == MODEL => parent,
            _ if parent.file_name().is_some_and(|name| name == CHECKPOINTS) => parent.parent()?,
            _ => return None,
        };
        let run = Self::new(folder);
        run.recipe().exists().then_some(run)
    }

    /// The result of the run, if it is finished.
    pub fn read_result(&self) -> Result<Option<RunResult>> {
        let path = self.result();
        let unusable = |what: &str| Error::format(&path, format!("{what}; use `curricle run --force` to start over"));
        let result: Option<RunResult> = files::read_json(&path).map_err(|error| match error {
            Error::Format { message, .. } => unusable(&message),
            other => other,
        })?;
        match &result {
            Some(result) if result.format != FORMAT => {
                Err(unusable(&format!("has format {}; this version of curricle reads format {FORMAT}", result.format)))
            }
            _ => Ok(result),
        }
    }

    /// The manifest of the run, if it was started.
    pub fn read_manifest(&self) -> Result<Option<Manifest>> {
        let damaged = |error| match error {
            Error::Format { path, message } => {
                Error::format(path, format!("{message}; restore the file, or use `curricle run --force` to start over"))
            }
            other => other,
        };
        let manifest: Option<Manifest> = files::read_json(&self.manifest()).map_err(damaged)?;
        match &manifest {
            Some(manifest) if manifest.format != FORMAT => Err(Error::format(
                self.manifest(),
                format!("has format {}; this version of curricle reads format {FORMAT}", manifest.format),
            )),
            _ => Ok(manifest),
        }
    }

    /// The settings in the run's resolved recipe.
    pub fn read_settings(&self) -> Result<Value> {
        let path = self.recipe();
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        toml::from_str(&text).map_err(|e| Error::format(&path, format!("invalid TOML: {}", e.message())))
    }

    /// Every scalar of the run, in the order they were logged.
    pub fn read_metrics(&self) -> Result<Vec<Scalar>> {
        metrics_file::read(&self.metrics())
    }

    /// What the run found out about each training sample.
    pub fn read_samples(&self) -> Result<SampleTable> {
        SampleTable::read(&self.samples())
    }

    /// Whether a process is working on the run. Changes nothing.
    pub fn is_locked(&self) -> bool {
        File::open(self.lock_file()).is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Creates the folder if needed and locks it for this process.
    pub fn lock(self) -> Result<LockedRun> {
        std::fs::create_dir_all(&self.path).map_err(Error::file("create", &self.path))?;
        let lock_path = self.lock_file();
        let lock = File::create(&lock_path).map_err(Error::file("create", &lock_path))?;
        for _ in 0..ATTEMPTS {
            match lock.try_lock() {
                Ok(()) => return Ok(LockedRun { folder: self, _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_ATTEMPTS),
                Err(TryLockError::Error(error)) => return Err(Error::file("lock", &lock_path)(error)),
            }
        }
        Err(Error::Busy(self.path))
    }
}

impl LockedRun {
    /// Removes the files of an earlier run.
    pub fn clear(&self) -> Result<()> {
        for path in self.in_order_of_removal()? {
            let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(Error::file("remove", &path))?;
        }
        Ok(())
    }

    /// All files but the lock. The result, which makes a run finished, and the manifest, which makes it started, come
    /// first: if the process is killed in between, the rest must not pass for such a run.
    fn in_order_of_removal(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(&self.path).map_err(Error::file("read", &self.path))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(Error::file("read", &self.path)));
        let mut paths = paths.collect::<Result<Vec<_>>>()?;
        paths.retain(|path| *path != self.lock_file());
        paths.sort_by_key(|path| (*path != self.result(), *path != self.manifest()));
        Ok(paths)
    }
}

impl std::ops::Deref for LockedRun {
    type Target = RunFolder;

    fn deref(&self) -> &RunFolder {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_start_with_method_and_case_and_end_with_the_hash() {
        let below = |method: &str, case: &str| {
            let labels = RunLabels { recipe: "many", method, case };
            RunFolder::below(Path::new("runs"), &labels, "0123456789", 3).path().display().to_string()
        };
        assert_eq!(below("ms", ""), "runs/many/ms-01234567/seed-3");
        assert_eq!(below("ms + prism", "20 % noise"), "runs/many/ms-prism-20-noise-01234567/seed-3");
        assert_eq!(below("ms+knn", ""), "runs/many/ms-knn-01234567/seed-3");
        let long = "é".repeat(200);
        assert!(below(&long, &long).ends_with("-01234567/seed-3"), "the hash is never cut off");
    }

    #[test]
    fn runs_of_methods_with_a_plus_stay_where_version_0_2_0_put_them() {
        let out = tempfile::tempdir().unwrap();
        let before = out.path().join("many/ms+knn-20-noise-01234567/seed-3");
        std::fs::create_dir_all(&before).unwrap();
        let below = |method, case, seed| {
            RunFolder::below(out.path(), &RunLabels { recipe: "many", method, case }, "0123456789", seed)
        };
        assert_eq!(below("ms + knn", "20 % noise", 3).path(), before);
        let after = out.path().join("many/ms-knn-20-noise-01234567");
        assert_eq!(below("ms+knn", "20 % noise", 4).path(), after.join("seed-4"));
        std::fs::create_dir_all(after.join("seed-3")).unwrap();
        assert_eq!(below("ms+knn", "20 % noise", 3).path(), after.join("seed-3"));
    }

    #[test]
    fn a_folder_can_be_locked_once() {
        let base = tempfile::tempdir().unwrap();
        let run = RunFolder::new(base.path().join("run"));
        let first = run.clone().lock().unwrap();
        assert!(matches!(run.clone().lock(), Err(Error::Busy(_))));
        assert!(run.is_locked());
        drop(first);
        assert!(!run.is_locked());
        run.lock().unwrap();
    }

    #[test]
    fn clearing_keeps_the_lock_file() {
        let base = tempfile::tempdir().unwrap();
        let run = RunFolder::new(base.path().join("run")).lock().unwrap();
        std::fs::create_dir(run.checkpoints()).unwrap();
        std::fs::write(run.metrics(), "x").unwrap();
        run.clear().unwrap();
        let left: Vec<_> = std::fs::read_dir(run.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, [".lock"]);
    }

    #[test]
    fn a_run_that_is_removed_in_part_is_neither_finished_nor_started() {
        let base = tempfile::tempdir().unwrap();
        let run = RunFolder::new(base.path().join("run")).lock().unwrap();
        let files = [run.checkpoints(), run.labels(), run.manifest(), run.model(), run.recipe(), run.result()];
        files.iter().for_each(|file| std::fs::write(file, "x").unwrap());
        let order = run.in_order_of_removal().unwrap();
        assert_eq!(order.len(), files.len());
        assert_eq!(order[..2], [run.result(), run.manifest()]);
    }

    #[test]
    fn missing_files_are_none_and_a_broken_result_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        let run = RunFolder::new(base.path());
        assert!(run.read_result().unwrap().is_none() && run.read_manifest().unwrap().is_none());
        std::fs::write(run.manifest(), "{").unwrap();
        assert!(run.read_manifest().unwrap_err().to_string().contains("--force"));
        std::fs::write(run.result(), "{").unwrap();
        assert!(run.read_result().unwrap_err().to_string().contains("--force"));
    }

    #[test]
    fn model_files_belong_to_a_run_with_a_recipe() {
        let base = tempfile::tempdir().unwrap();
        let run = RunFolder::new(base.path());
        assert_eq!(RunFolder::of_model_file(&run.model()), None, "no recipe, no run");
        std::fs::write(run.recipe(), "").unwrap();
        assert_eq!(RunFolder::of_model_file(&run.model()), Some(run.clone()));
        assert_eq!(RunFolder::of_model_file(&run.checkpoints().join("step-1.safetensors")), Some(run.clone()));
        assert_eq!(RunFolder::of_model_file(&run.path().join("other.safetensors")), None);
        assert_eq!(RunFolder::named_by(&run.result()), run);
    }
}
