//! Opens finished runs.
//!
//! Only the run folder is needed: its recipe names the data, which is loaded again and must not have
//! changed since training.

use super::saved::SavedModel;
use crate::backbone::Model;
use crate::data::noise::{self, NoisySplit};
use crate::data::{self, Dataset, Split, validation};
use crate::experiment::Experiment;
use crate::registry::Registry;
use crate::{Error, Result};
use curricle_recipe::EvalOn;
use curricle_record::{Manifest, RunFolder, RunResult};
use std::path::{Path, PathBuf};
use tch::Device;

/// A finished run.
#[derive(Debug)]
pub struct FinishedRun {
    /// Its folder.
    pub folder: RunFolder,
    /// Its recipe and components.
    pub experiment: Experiment,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its result.
    pub result: RunResult,
}

impl FinishedRun {
    /// Opens the folder of a finished run.
    pub fn open(folder: &Path, registry: &Registry) -> Result<Self> {
        let shown = folder.display();
        let run = RunFolder::new(folder);
        if !folder.is_dir() {
            return Err(Error::Usage(format!("there is no folder `{shown}`; pass the folder of a finished run")));
        }
        if !run.recipe().is_file() {
            let below = below(folder, 3).map(|run| format!("; did you mean `{}`?", run.display()));
            let below = below.unwrap_or_default();
            return Err(Error::Usage(format!("`{shown}` is not a run folder: it has no `recipe.toml`{below}")));
        }
        let unfinished =
            || Error::Usage(format!("the run in `{shown}` is not finished; resume it with `curricle run`"));
        let result = run.read_result()?.ok_or_else(unfinished)?;
        let manifest = run
            .read_manifest()?
            .ok_or_else(|| Error::format(folder, "has no `manifest.json`; use `curricle run --force` to start over"))?;
        let experiment = Experiment::load_stored(&run.recipe(), registry)?;
        Ok(Self { folder: run, experiment, manifest, result })
    }

    /// Loads the run's data set again; an error if it has changed since training.
    pub fn dataset(&self) -> Result<Dataset> {
        let recipe = &self.experiment.recipe;
        let dataset = data::load(&recipe.data, &recipe.images)?;
        if dataset.hash != self.manifest.conditions.data {
            return Err(Error::Failed(format!(
                "the data has changed since `{}` was trained (hash `{}`, now `{}`); restore it, or use `--force` \
                 to start over",
                self.folder.path().display(),
                self.manifest.conditions.data,
                dataset.hash
            )));
        }
        Ok(dataset)
    }

    /// The samples and labels the run was trained on, from its `labels.csv`; `train` is the training
    /// split of its data set.
    pub fn training(&self, train: &Split) -> Result<NoisySplit> {
        let recipe = &self.experiment.recipe;
        let labels = noise::load(&self.folder.labels(), train)?;
        let training = labels.training_set(train, noise::removes_flipped(&recipe.noise))?;
        match recipe.eval.on {
            EvalOn::Test => Ok(training),
            EvalOn::Validation => Ok(validation::hold_out(&training, &recipe.eval)?.0),
        }
    }

    /// The trained network.
    pub fn model(&self, device: Device) -> Result<Model> {
        SavedModel::open(self.folder.path())?.build(device)
    }
}

/// The first run below a folder, at most `depth` levels down.
fn below(folder: &Path, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).filter(|path| path.is_dir()).collect();
    entries.sort();
    entries.into_iter().find_map(|path| {
        if RunFolder::new(&path).recipe().is_file() {
            Some(path)
        } else if depth > 1 {
            below(&path, depth - 1)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(folder: &Path) -> String {
        FinishedRun::open(folder, &Registry::built_in()).unwrap_err().to_string()
    }

    #[test]
    fn folders_without_a_finished_run_are_refused_with_a_remedy() {
        let base = tempfile::tempdir().unwrap();
        assert!(message(&base.path().join("typo")).starts_with("there is no folder"));
        assert!(message(base.path()).ends_with("it has no `recipe.toml`"));
        let run = base.path().join("x/ms-01234567/seed-0");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("recipe.toml"), "").unwrap();
        assert!(message(base.path()).contains(&format!("did you mean `{}`?", run.display())));
        assert!(message(&run).contains("is not finished"));
    }
}
