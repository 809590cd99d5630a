//! The rows of `samples.csv`.

use crate::Result;
use crate::data::noise::NoisySplit;
use crate::train::noise_report::is_suspected;
use curricle_record::samples::{self, SampleRow};
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// Number of rows compared with all class means at a time.
const BLOCK: i64 = 4096;

/// Writes one row per training sample.
pub(super) fn write(
    path: &Path,
    training: &NoisySplit,
    weights: &[f64],
    columns: &[(String, Vec<f64>)],
    embeddings: &Tensor,
) -> Result<()> {
    let split = &training.split;
    let nearest = nearest_classes(embeddings, &split.labels, weights, split.class_names.len());
    let class = |label: i64| split.class_names[label as usize].clone();
    let row = |row: usize| SampleRow {
        sample: training.samples[row],
        path: split.paths[row].clone(),
        label: class(split.labels[row]),
        weight: weights[row],
        suspected: is_suspected(weights[row]),
        nearest_class: class(nearest[row]),
        flipped: training.flipped[row],
    };
    let rows: Vec<_> = (0..split.len()).map(row).collect();
    Ok(samples::write(path, &rows, columns)?)
}

/// For each sample the class with the most similar weighted mean (cosine). The sample itself is
/// excluded from the mean of its own class, which it would bias towards itself.
fn nearest_classes(embeddings: &Tensor, labels: &[i64], weights: &[f64], classes: usize) -> Vec<i64> {
    let _no_grad = tch::no_grad_guard();
    let device = embeddings.device();
    let x = embeddings.to_kind(Kind::Float);
    let labels = Tensor::from_slice(labels).to_device(device);
    let weights: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
    let weighted = &x * Tensor::from_slice(&weights).to_device(device).unsqueeze(1);
    let sums = Tensor::zeros([classes as i64, x.size()[1]], (Kind::Float, device)).index_add(0, &labels, &weighted);
    let means = unit(&sums);
    let mut nearest = Vec::with_capacity(weights.len());
    for start in (0..x.size()[0]).step_by(BLOCK as usize) {
        let length = BLOCK.min(x.size()[0] - start);
        let rows = |t: &Tensor| t.narrow(0, start, length);
        let own = unit(&(sums.index_select(0, &rows(&labels)) - rows(&weighted)));
        let own_similarity = (rows(&x) * own).sum_dim_intlist([1i64].as_slice(), true, Kind::Float);
        let mut similarities = rows(&x).matmul(&means.tr());
        let _ = similarities.scatter_(1, &rows(&labels).unsqueeze(1), &own_similarity);
        let best = similarities.argmax(1, false).to_device(Device::Cpu);
        nearest.extend(Vec::<i64>::try_from(best).unwrap_or_default());
    }
    nearest
}

fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mislabelled_sample_is_nearest_to_its_true_class() {
        let rows = [[1.0f32, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [0.05, 1.0]];
        let x = Tensor::from_slice(&rows.concat()).view([5, 2]);
        // The last sample belongs to class 1 and is labelled 0.
        assert_eq!(nearest_classes(&x, &[0, 0, 1, 1, 0], &[1.0; 5], 2), [0, 0, 1, 1, 1]);
    }

    #[test]
    fn samples_with_weight_zero_do_not_affect_the_mean() {
        let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 0.6, 0.8]).view([3, 2]);
        assert_eq!(nearest_classes(&x, &[0, 1, 0], &[1.0, 1.0, 0.0], 2)[2], 1);
    }
}
