//! Finds runs and reads them from their folders.

use crate::{Error, Result};
use curricle_recipe::{SweepRun, identity};
use curricle_record::{self as record, Manifest, RunFolder, RunResult, default_method, setting};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The weight scheme that knows the wrong labels.
pub(crate) const ORACLE: &str = "oracle";

/// A finished run.
#[derive(Debug, Clone)]
pub struct ReportedRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Name of the method, which labels its row.
    pub method: String,
    /// Name of the case; empty if it has none.
    pub case: String,
    /// The resolved recipe.
    pub settings: Value,
    /// Its result.
    pub result: RunResult,
    /// The versions and device it ran with, if recorded.
    pub manifest: Option<Manifest>,
}

impl ReportedRun {
    /// A finished run of a sweep.
    pub(crate) fn from_sweep(planned: &SweepRun, result: RunResult) -> Self {
        Self {
            folder: planned.resolved.folder(Path::new("")).path().into(),
            method: planned.method.clone(),
            case: planned.case.clone().unwrap_or_default(),
            settings: serde_json::to_value(&planned.resolved.recipe).unwrap_or_default(),
            result,
            manifest: None,
        }
    }

    /// A setting by its dotted name.
    pub fn setting(&self, path: &str) -> Option<&Value> {
        setting(&self.settings, path)
    }

    /// A numeric setting by its dotted name.
    pub fn number(&self, path: &str) -> Option<f64> {
        self.setting(path)?.as_f64()
    }

    /// A text setting by its dotted name.
    pub fn word(&self, path: &str) -> Option<&str> {
        self.setting(path)?.as_str()
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.result.seed
    }
}

/// The position of a run in a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RunKey {
    /// The method.
    pub method: String,
    /// The case; empty if it has no name.
    pub case: String,
    /// The seed.
    pub seed: u64,
}

/// A folder that was found but skipped.
#[derive(Debug, Clone, Serialize)]
pub struct SkippedRun {
    /// The folder.
    pub folder: PathBuf,
    /// Why.
    pub reason: String,
    /// The position of its run, if known.
    pub place: Option<RunKey>,
}

/// What was found below some folders.
#[derive(Debug, Default)]
pub struct FoundRuns {
    /// The finished runs, by path.
    pub runs: Vec<ReportedRun>,
    /// The skipped folders.
    pub skipped: Vec<SkippedRun>,
}

/// Finds all runs in folders and below them.
///
/// # Errors
/// If a folder does not exist or cannot be listed, or if there is no run at all.
pub fn find(folders: &[PathBuf]) -> Result<FoundRuns> {
    let mut seen = BTreeSet::new();
    let mut paths = Vec::new();
    for folder in folders {
        let before = paths.len();
        let run = RunFolder::named_by(folder);
        let folder = run.path();
        if !folder.is_dir() {
            let shown = folder.display();
            return Err(Error::Usage(match folder.exists() {
                true => format!("`{shown}` is not a folder"),
                false => format!("there is no folder `{shown}`"),
            }));
        }
        walk(folder, &mut seen, &mut paths)?;
        if paths.len() == before && folders.len() == 1 {
            return Err(Error::Usage(format!(
                "no run found in `{}` or below; a run is a folder with a `result.json`",
                folder.display()
            )));
        }
    }
    let mut found = FoundRuns::default();
    for path in paths {
        match read(&path) {
            Ok(run) => found.runs.push(run),
            Err(skipped) => found.skipped.push(*skipped),
        }
    }
    Ok(found)
}

fn walk(folder: &Path, seen: &mut BTreeSet<PathBuf>, runs: &mut Vec<PathBuf>) -> Result<()> {
    // Symlinks may form cycles, and the given folders may be nested.
    let real = folder.canonicalize().map_err(record::Error::file("read", folder))?;
    if !seen.insert(real) {
        return Ok(());
    }
    if RunFolder::new(folder).is_run() {
        runs.push(folder.into());
        return Ok(());
    }
    let entries = std::fs::read_dir(folder).map_err(record::Error::file("read", folder))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    below.sort();
    below.iter().try_for_each(|path| walk(path, seen, runs))
}

fn read(folder: &Path) -> Result<ReportedRun, Box<SkippedRun>> {
    let files = RunFolder::new(folder);
    let settings = files.read_settings();
    let place = settings.as_ref().ok().map(|settings| {
        let word = |path| setting(settings, path).and_then(Value::as_str).unwrap_or_default();
        let method = match word("method") {
            "" => default_method(word("loss.name"), word("weights.name")),
            method => method.to_string(),
        };
        let seed = setting(settings, "seed").and_then(Value::as_u64).unwrap_or(0);
        RunKey { method, case: word("case").into(), seed }
    });
    let skipped = |reason: String| Box::new(SkippedRun { folder: folder.into(), reason, place: place.clone() });
    let result = files
        .read_result()
        .map_err(|error| skipped(error.to_string()))?
        .ok_or_else(|| skipped("not finished: no `result.json`".into()))?;
    let settings = settings.map_err(|error| skipped(error.to_string()))?;
    let manifest = files.read_manifest().map_err(|error| skipped(error.to_string()))?;
    if let Some(manifest) = &manifest
        && !manifest.recipe_hash_without_plugins.is_empty()
        && manifest.recipe_hash_without_plugins != identity(&settings, &[])
    {
        return Err(skipped(
            "its `recipe.toml` was changed after the run; restore it, or use `--force` to start over".into(),
        ));
    }
    let method = result.method.clone().unwrap_or_else(|| default_method(&result.loss, &result.weights));
    let case = result.case.clone().unwrap_or_default();
    Ok(ReportedRun { folder: folder.into(), method, case, settings, result, manifest })
}
