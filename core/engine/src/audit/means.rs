//! Similarity of samples to class means.

use tch::{Device, Kind, Tensor};

/// Rows compared with class means at once.
const BLOCK: i64 = 4096;

/// The embeddings and the weighted sums of all classes, on the device of the embeddings.
#[derive(Debug)]
pub(super) struct Means {
    x: Tensor,
    weighted: Tensor,
    sums: Tensor,
}

impl Means {
    /// Sums the embeddings `[N, D]` of each class, weighted by sample.
    pub(super) fn new(embeddings: &Tensor, labels: &[i64], weights: &[f64], classes: usize) -> Self {
        let _no_grad = tch::no_grad_guard();
        let device = embeddings.device();
        let x = embeddings.to_kind(Kind::Float);
        let weights: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
        let weighted = &x * Tensor::from_slice(&weights).to_device(device).unsqueeze(1);
        let labels = Tensor::from_slice(labels).to_device(device);
        let sums = Tensor::zeros([classes as i64, x.size()[1]], (Kind::Float, device)).index_add(0, &labels, &weighted);
        Self { x, weighted, sums }
    }

    /// The cosine similarity of each sample to the mean of its class in `classes`. If that is its label,
    /// the sample is excluded from the mean, which it would pull towards itself.
    pub(super) fn similarities(&self, labels: &[i64], classes: &[i64]) -> curricle_sdk::Result<Vec<f64>> {
        let _no_grad = tch::no_grad_guard();
        let device = self.x.device();
        let to = |values: &[i64]| Tensor::from_slice(values).to_device(device);
        let own: Vec<f32> =
            labels.iter().zip(classes).map(|(label, class)| f32::from(u8::from(label == class))).collect();
        let own = Tensor::from_slice(&own).to_device(device).unsqueeze(1);
        let classes = to(classes);
        let mut all = Vec::with_capacity(labels.len());
        for start in (0..labels.len() as i64).step_by(BLOCK as usize) {
            let rows = |t: &Tensor| t.narrow(0, start, BLOCK.min(labels.len() as i64 - start));
            let means = self.sums.index_select(0, &rows(&classes)) - rows(&own) * rows(&self.weighted);
            let lengths = means.norm_scalaropt_dim(2.0, [1i64].as_slice(), false).clamp_min(1e-12);
            let similarities = (rows(&self.x) * means).sum_dim_intlist([1i64].as_slice(), false, Kind::Float) / lengths;
            let similarities = similarities.to_device(Device::Cpu).to_kind(Kind::Double);
            all.extend(Vec::<f64>::try_from(similarities)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_excluded_from_the_mean_of_its_own_class() {
        let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 0.6, 0.8]).view([3, 2]);
        let labels = [0, 0, 1];
        let means = Means::new(&x, &labels, &[1.0; 3], 2);
        let own = means.similarities(&labels, &labels).unwrap();
        // The first two have only each other; the third is alone in its class.
        assert_eq!(own, [0.0, 0.0, 0.0]);
        let other = means.similarities(&labels, &[1, 1, 0]).unwrap();
        let expected = [0.6, 0.8, (0.6 + 0.8) / 2.0f64.sqrt()];
        assert!(other.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{other:?}");
    }

    #[test]
    fn samples_of_weight_zero_do_not_affect_the_mean() {
        let x = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 0.6, 0.8]).view([3, 2]);
        let means = Means::new(&x, &[0, 0, 1], &[1.0, 0.0, 1.0], 2);
        assert!((means.similarities(&[0, 0, 1], &[0, 0, 0]).unwrap()[2] - 0.6).abs() < 1e-6);
    }
}
