//! FinishedRun runs, opened again.
//!
//! A run folder is all that is needed: the recipe in it names the data, which are loaded again and
//! must still be the ones the run was trained on.

use super::saved::SavedModel;
use crate::backbone::Model;
use crate::data::noise::{self, NoisyPart};
use crate::data::{self, Dataset, Part, validation};
use crate::experiment::Experiment;
use crate::registry::Registry;
use crate::{Error, Result};
use curricle_recipe::EvalOn;
use curricle_record::{Manifest, RunFolder, RunResult};
use std::path::{Path, PathBuf};
use tch::Device;

/// A run that was carried out to its end.
#[derive(Debug)]
pub struct FinishedRun {
    /// Its folder.
    pub folder: RunFolder,
    /// Its recipe and components.
    pub experiment: Experiment,
    /// What it was made with.
    pub manifest: Manifest,
    /// What it came to.
    pub result: RunResult,
}

impl FinishedRun {
    /// Opens the folder of a run, or says why it is none.
    pub fn open(folder: &Path, registry: &Registry) -> Result<Self> {
        let shown = folder.display();
        let run = RunFolder::new(folder);
        if !folder.is_dir() {
            return Err(Error::Usage(format!("there is no folder `{shown}`; name the folder of a finished run")));
        }
        if !run.recipe().is_file() {
            let below = below(folder, 3).map(|run| format!("; a run below it is `{}`", run.display()));
            let below = below.unwrap_or_default();
            return Err(Error::Usage(format!(
                "`{shown}` is not the folder of a run, which has a `recipe.toml`{below}"
            )));
        }
        let unfinished =
            || Error::Usage(format!("the run in `{shown}` is not finished; `curricle run` goes on with it"));
        let result = run.read_result()?.ok_or_else(unfinished)?;
        let manifest = run.read_manifest()?.ok_or_else(|| {
            Error::format(folder, "has lost its `manifest.json`; `curricle run` with `--force` makes the run anew")
        })?;
        let experiment = Experiment::load_stored(&run.recipe(), registry)?;
        Ok(Self { folder: run, experiment, manifest, result })
    }

    /// The data set of the run, loaded again; refused if it is not what the run saw.
    pub fn dataset(&self) -> Result<Dataset> {
        let recipe = &self.experiment.recipe;
        let dataset = data::load(&recipe.data, &recipe.images)?;
        if dataset.hash != self.manifest.conditions.data {
            return Err(Error::Failed(format!(
                "the data have changed since `{}` was trained (hash `{}`, now `{}`); put them back, or train \
                 again with `--force`",
                self.folder.path().display(),
                self.manifest.conditions.data,
                dataset.hash
            )));
        }
        Ok(dataset)
    }

    /// The samples the run was trained on, with the labels it was trained with, as its folder has
    /// them; `train` is the training part of its data set.
    pub fn training(&self, train: &Part) -> Result<NoisyPart> {
        let recipe = &self.experiment.recipe;
        let labels = noise::load(&self.folder.labels(), train)?;
        let training = labels.training_set(train, noise::removes_flipped(&recipe.noise))?;
        match recipe.eval.on {
            EvalOn::Test => Ok(training),
            EvalOn::Validation => Ok(validation::set_aside(&training, &recipe.eval)?.0),
        }
    }

    /// The trained network.
    pub fn model(&self, device: Device) -> Result<Model> {
        SavedModel::open(self.folder.path())?.build(device)
    }
}

/// Some run below a folder, at most `depth` folders down.
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
    fn folders_that_are_no_finished_run_are_refused_with_what_to_do() {
        let base = tempfile::tempdir().unwrap();
        assert!(message(&base.path().join("typo")).starts_with("there is no folder"));
        assert!(message(base.path()).ends_with("which has a `recipe.toml`"));
        let run = base.path().join("x/01234567/seed-0");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("recipe.toml"), "").unwrap();
        assert!(message(base.path()).contains(&format!("a run below it is `{}`", run.display())));
        assert!(message(&run).contains("is not finished"));
    }
}
