//! What a run is about to train on, in one line each, before it starts.

use super::prepare::Prepared;
use crate::progress::{self, ProgressMode};
use crate::track::logging;
use curricle_recipe::{EvalOn, NoiseRecipe, Recipe};

/// Prints the lines, unless `--quiet`, and logs them.
pub(super) fn announce(recipe: &Recipe, prepared: &Prepared, mode: ProgressMode) {
    for line in lines(recipe, prepared) {
        tracing::info!(target: logging::FILE_ONLY, "{line}");
        if mode != ProgressMode::Quiet {
            progress::print(&format!("{line}\n"));
        }
    }
}

fn lines(recipe: &Recipe, prepared: &Prepared) -> [String; 3] {
    let (training, test) = (&prepared.training.split, &prepared.test);
    let classes = |split: &crate::data::Split| counted(split.class_names.len(), "class", "classes");
    let samples = |count| counted(count, "sample", "samples");
    let held_out = match recipe.eval.on {
        EvalOn::Test => "test",
        EvalOn::Validation => "validation",
    };
    let evaluated = match &prepared.query {
        None => samples(test.len()),
        Some(query) => {
            let queries = query.iter().filter(|is_query| **is_query).count();
            format!("{}, gallery of {}", counted(queries, "query", "queries"), samples(test.len() - queries))
        }
    };
    [
        format!("training: {}, {} ({})", classes(training), samples(training.len()), training.inputs.layout()),
        format!("{held_out}: {}, {evaluated}", classes(test)),
        labels(&recipe.noise, &prepared.noise.flipped),
    ]
}

fn labels(noise: &NoiseRecipe, flipped: &[bool]) -> String {
    let count = flipped.iter().filter(|flipped| **flipped).count();
    let percent = 100.0 * count as f64 / flipped.len().max(1) as f64;
    let share = format!("{count} of {} ({percent:.1} %)", flipped.len());
    let removed = if crate::data::noise::removes_flipped(noise) { ", and removed" } else { "" };
    match noise {
        NoiseRecipe::None => "labels: as given, no label noise".into(),
        NoiseRecipe::Uniform { .. } => format!("labels: {share} flipped by `uniform` noise{removed}"),
        NoiseRecipe::Pair { .. } => format!("labels: {share} flipped by `pair` noise{removed}"),
        NoiseRecipe::Similar { .. } => format!("labels: {share} flipped by `similar` noise{removed}"),
        NoiseRecipe::SmallCluster { .. } => format!("labels: {share} flipped by `small_cluster` noise{removed}"),
        NoiseRecipe::List { path, .. } => format!("labels: {share} changed by `{}`{removed}", path.display()),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_labels_are_counted_and_their_noise_is_named() {
        let noise = NoiseRecipe::Uniform { ratio: 0.25, seed: None, remove_flipped: false };
        let flipped = [true, false, false, false];
        assert_eq!(labels(&noise, &flipped), "labels: 1 of 4 (25.0 %) flipped by `uniform` noise");
        let noise = NoiseRecipe::Pair { ratio: 0.25, seed: None, remove_flipped: true };
        assert_eq!(labels(&noise, &flipped), "labels: 1 of 4 (25.0 %) flipped by `pair` noise, and removed");
        assert_eq!(labels(&NoiseRecipe::None, &[false]), "labels: as given, no label noise");
    }
}
