//! Warnings and files at the start of a run.

use super::prepare::Prepared;
use crate::data::noise;
use crate::experiment::Experiment;
use crate::preflight::advice;
use crate::track::{HParams, Tracker, logging};
use crate::{Error, Result};
use curricle_recipe::{Resolved, Written};
use curricle_record::RunFolder;
use curricle_record::files;
use curricle_sdk::DataFacts;

/// Warns of settings that will not work well on the actual data.
pub(super) fn warn_of_degenerate_settings(experiment: &Experiment, prepared: &Prepared) {
    let Experiment { resolved, method, .. } = experiment;
    let facts = DataFacts {
        class_sizes: &prepared.training.split.class_sizes(),
        embedding_size: usize::try_from(resolved.recipe.embedding.size).unwrap_or(0),
        batch_size: prepared.trainer.components.sampler.batch_size(),
    };
    let written = Written { recipe: &resolved.recipe, tree: &resolved.tree };
    for warning in advice(written, method, Some(&facts)).iter().map(ToString::to_string) {
        // Warnings from the recipe alone have already been shown before the run started.
        if resolved.warnings.iter().any(|shown| shown.to_string() == warning) {
            tracing::warn!(target: logging::FILE_ONLY, "{warning}");
        } else {
            tracing::warn!("{warning}");
        }
    }
}

/// Writes the resolved recipe, the manifest and the labels, or checks that a started run can be resumed.
pub(super) fn write(resolved: &Resolved, folder: &RunFolder, prepared: &Prepared) -> Result<()> {
    match folder.read_manifest()? {
        Some(started) => {
            prepared.manifest.check_resumable(&started, folder.path())?;
            if started.threads != prepared.manifest.threads {
                let (before, now) = (started.threads, prepared.manifest.threads);
                tracing::warn!(
                    "the number of threads has changed from {before} to {now}; results may differ in the last bits"
                );
            }
        }
        None => {
            files::write(&folder.recipe(), resolved.to_toml().as_bytes())?;
            noise::save(&folder.labels(), &prepared.original, &prepared.noise)?;
            files::write_json(&folder.manifest(), &prepared.manifest)?;
        }
    }
    Ok(())
}

/// Writes the recipe to TensorBoard, as text and as hyperparameters.
pub(super) fn describe(resolved: &Resolved, tracker: &mut Tracker) -> Result<()> {
    tracker.text("recipe", &format!("```toml\n{}\n```", resolved.to_toml()), 0);
    let settings = serde_json::to_value(&resolved.recipe).map_err(Error::encode("the recipe"))?;
    let hparams = HParams::from_settings(resolved.hash(), &settings)
        .without("seed")
        .without("description")
        .without("method")
        .without("case");
    tracker.hparams(&hparams)
}
