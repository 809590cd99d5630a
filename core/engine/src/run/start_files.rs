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
use serde_json::Value;

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

/// Writes the recipe to TensorBoard, as text and as a row of the table of runs.
pub(super) fn describe(resolved: &Resolved, tracker: &mut Tracker) -> Result<()> {
    tracker.text("recipe", &format!("```toml\n{}\n```", resolved.to_toml()), 0);
    let noise = serde_json::to_value(&resolved.recipe.noise).map_err(Error::encode("the recipe"))?;
    let case = resolved.recipe.case.clone().into_iter();
    tracker.hparams(&HParams {
        method: resolved.method(),
        noise: noise_words(&noise),
        seed: resolved.recipe.seed,
        settings: case.chain(resolved.arguments()).collect::<Vec<_>>().join(", "),
    })
}

/// The label noise in a few words: `20 % uniform`, `none`, `20 % uniform, flipped removed`.
fn noise_words(noise: &Value) -> String {
    let name = noise["name"].as_str().unwrap_or("none");
    let ratio = noise["ratio"].as_f64().map_or_else(String::new, |ratio| format!("{} % ", rounded(100.0 * ratio)));
    let removed = if noise["remove_flipped"] == true { ", flipped removed" } else { "" };
    format!("{ratio}{name}{removed}")
}

/// At most two decimals: `0.1 + 0.2` is 30 %.
fn rounded(percent: f64) -> f64 {
    (100.0 * percent).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn noise_is_described_in_a_few_words() {
        assert_eq!(noise_words(&json!({ "name": "none" })), "none");
        assert_eq!(noise_words(&json!({ "name": "uniform", "ratio": 0.3, "seed": 1 })), "30 % uniform");
        let removed = json!({ "name": "list", "path": "x", "remove_flipped": true });
        assert_eq!(noise_words(&removed), "list, flipped removed");
    }
}
