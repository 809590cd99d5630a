//! Writes a run's scalars, histograms and images to TensorBoard and `metrics.jsonl`.

use super::prepare::Prepared;
use crate::Result;
use crate::data::{Layout, Split};
use crate::track::{Tracker, grid, profile, weight_chart};
use crate::train::StepReport;
use curricle_eval as eval;
use curricle_recipe::TrackRecipe;
use curricle_record::Metrics;
use std::time::Duration;
use tch::{Device, Kind, Tensor};

/// Number of queries, and of neighbours per query, in a retrieval grid.
const GRID: (usize, usize) = (8, 8);
/// Tag of the retrieval grid, and its file name without `.png`.
const RETRIEVAL: &str = "retrieval";
/// Number of samples whose similarities are shown as histograms.
const SIMILARITY_SAMPLES: usize = 500;
/// Number of samples in a grid of the lowest or highest weights.
const WEIGHT_GRID: usize = 24;
/// Width and height of the images in a grid, unless the samples are smaller.
const THUMBNAIL: i64 = 96;

/// Writes the scalars of a step report.
pub(super) fn steps(tracker: &mut Tracker, report: &StepReport) -> Result<()> {
    let seconds = report.total.as_secs_f64().max(f64::MIN_POSITIVE);
    let share = |split: Duration| split.as_secs_f64() / seconds;
    let mut scalars = vec![("train/loss".to_string(), report.loss)];
    scalars.extend(report.learning_rates.iter().map(|(group, lr)| (format!("train/lr/{group}"), *lr)));
    scalars.extend(report.scalars.iter().cloned());
    scalars.extend([
        ("time/step_ms".to_string(), 1e3 * seconds / report.steps as f64),
        ("time/images_per_second".to_string(), report.samples as f64 / seconds),
    ]);
    let parts = profile::Phase::STEP.iter();
    scalars.extend(parts.map(|&split| (format!("time/share/{}", split.name()), share(report.times.get(split)))));
    scalars.push(("time/share/outside".into(), share(report.total.saturating_sub(report.times.sum()))));
    tracker.scalars(&scalars, report.global_step, report.epoch + 1)
}

/// Writes the metrics of an evaluation, similarity histograms and the retrieval grid.
pub(super) fn evaluation(
    tracker: &mut Tracker,
    track: &TrackRecipe,
    metrics: &Metrics,
    embeddings: &Tensor,
    prepared: &Prepared,
    step: u64,
    epoch: u64,
) -> Result<()> {
    let test = &prepared.test;
    let scalars: Vec<_> = metrics.scalars().into_iter().map(|(name, value)| (format!("eval/{name}"), value)).collect();
    tracker.scalars(&scalars, step, epoch)?;
    if track.histograms {
        let (positive, negative) = similarities(embeddings, &test.labels);
        tracker.histogram("similarity/positive", &positive, step, epoch)?;
        tracker.histogram("similarity/negative", &negative, step, epoch)?;
    }
    if track.images && matches!(test.inputs.layout(), Layout::Images { .. }) {
        let query = prepared.query.as_deref();
        let candidates: Vec<usize> = (0..test.len()).filter(|&i| query.is_none_or(|query| query[i])).collect();
        let queries: Vec<usize> = evenly(candidates.len(), GRID.0).into_iter().map(|i| candidates[i]).collect();
        let found = eval::neighbours(embeddings, query, &queries, GRID.1)?;
        let correct: Vec<bool> = queries
            .iter()
            .zip(&found)
            .flat_map(|(&query, found)| found.iter().map(move |(id, _)| test.labels[*id] == test.labels[query]))
            .collect();
        let shown: Vec<usize> = found.iter().flatten().map(|(id, _)| *id).collect();
        let side = test.inputs.thumbnail_side(THUMBNAIL);
        let images = (test.inputs.thumbnails(&queries, side)?, test.inputs.thumbnails(&shown, side)?);
        if let (Some(queries), Some(shown)) = images {
            tracker.latest_image(RETRIEVAL, &grid::retrieval_grid(&queries, &shown, &correct)?, step)?;
        }
    }
    Ok(())
}

/// Writes the sample weights: scalars, histograms, and the samples with the lowest and highest weights.
pub(super) fn weighting(
    tracker: &mut Tracker,
    track: &TrackRecipe,
    scalars: &[(String, f64)],
    weights: &[f64],
    training: &Weighted,
    step: u64,
    epoch: u64,
) -> Result<()> {
    let named: Vec<_> = scalars.iter().map(|(name, value)| (format!("weights/{name}"), *value)).collect();
    tracker.scalars(&named, step, epoch)?;
    if track.histograms {
        tracker.histogram("weights/all", weights, step, epoch)?;
        if training.flipped.contains(&true) {
            let of = |wanted: bool| -> Vec<f64> {
                let pairs = weights.iter().zip(training.flipped);
                pairs.filter(|(_, flipped)| **flipped == wanted).map(|(weight, _)| *weight).collect()
            };
            tracker.histogram("weights/clean", &of(false), step, epoch)?;
            tracker.histogram("weights/noisy", &of(true), step, epoch)?;
            tracker.image("weights/clean_and_flipped", &weight_chart(weights, training.flipped), step)?;
        }
    }
    let inputs = &training.split.inputs;
    if track.images && matches!(inputs.layout(), Layout::Images { .. }) {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|a, b| weights[*a].total_cmp(&weights[*b]));
        let lowest: Vec<usize> = order.iter().copied().take(WEIGHT_GRID).collect();
        let highest: Vec<usize> = order.iter().rev().copied().take(WEIGHT_GRID).collect();
        for (tag, chosen) in [("weights/lowest", lowest), ("weights/highest", highest)] {
            let caption = |&id: &usize| {
                let flipped = if training.flipped[id] { "flipped" } else { "" };
                format!(
                    "{}\nw {:.2}\n{flipped}",
                    training.split.class_names[training.split.labels[id] as usize], weights[id]
                )
            };
            let captions: Vec<_> = chosen.iter().map(caption).collect();
            if let Some(images) = inputs.thumbnails(&chosen, inputs.thumbnail_side(THUMBNAIL))? {
                tracker.image(tag, &grid::sample_grid(&images, &captions, 8)?, step)?;
            }
        }
    }
    Ok(())
}

/// The training samples and the mask of flipped labels.
pub(super) struct Weighted<'a> {
    pub split: &'a Split,
    pub flipped: &'a [bool],
}

/// Similarities of positive and of negative pairs among evenly spaced samples.
fn similarities(embeddings: &Tensor, labels: &[i64]) -> (Vec<f64>, Vec<f64>) {
    let chosen = evenly(labels.len(), SIMILARITY_SAMPLES);
    let rows = pick(embeddings, &chosen);
    let matrix = rows.matmul(&rows.tr()).to_device(Device::Cpu).to_kind(Kind::Double).reshape([-1]);
    let values = Vec::<f64>::try_from(matrix).unwrap_or_default();
    let (mut positive, mut negative) = (Vec::new(), Vec::new());
    for (i, &a) in chosen.iter().enumerate() {
        for (j, &b) in chosen.iter().enumerate().skip(i + 1) {
            let side = if labels[a] == labels[b] { &mut positive } else { &mut negative };
            side.push(values[i * chosen.len() + j]);
        }
    }
    (positive, negative)
}

fn evenly(total: usize, wanted: usize) -> Vec<usize> {
    let count = total.min(wanted);
    (0..count).map(|i| i * total / count).collect()
}

fn pick(rows: &Tensor, ids: &[usize]) -> Tensor {
    let ids: Vec<i64> = ids.iter().map(|&id| id as i64).collect();
    rows.index_select(0, &Tensor::from_slice(&ids).to_device(rows.device()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_are_split_into_positive_and_negative_pairs() {
        let embeddings = Tensor::from_slice(&[1.0f32, 0.0, 1.0, 0.0, 0.0, 1.0]).view([3, 2]);
        let (positive, negative) = similarities(&embeddings, &[0, 0, 1]);
        assert_eq!((positive, negative), (vec![1.0], vec![0.0, 0.0]));
    }

    #[test]
    fn chosen_samples_are_evenly_spaced() {
        assert_eq!(evenly(10, 4), [0, 2, 5, 7]);
        assert_eq!(evenly(2, 4), [0, 1]);
        assert!(evenly(0, 4).is_empty());
    }
}
