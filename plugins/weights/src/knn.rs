//! `knn`: leaves out samples whose nearest neighbours have other labels.
//!
//! The agreement of a sample is the share of its k nearest training samples, by cosine similarity of
//! the round's embeddings, that have its label. Where a class has fewer than k other samples, it is the
//! share of those. Samples below a threshold get weight 0, all others 1 (as in deep k-NN filtering:
//! Bahri, Jiang and Gupta, 2020, with a threshold instead of the majority). No noise rate is needed.
//! The neighbours are exact.

use crate::classes::Classes;
use crate::schedule::First;
use crate::xi::embeddings;
use curricle_sdk::mm;
use curricle_sdk::prelude::*;

/// Weights from the labels of neighbours.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Knn {
    /// Number of neighbours k. 10 is less than most data sets have samples per class.
    #[schemars(range(min = 1))]
    pub k: usize,
    /// Agreement below which a sample is left out. A wrong label agrees with hardly any neighbour, while
    /// an embedding that has just begun to learn agrees with few right ones, so the default is low.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Weights of the first epoch.
    pub first: First,
}

impl Default for Knn {
    fn default() -> Self {
        Self { k: 10, threshold: 0.2, first: First::Ones }
    }
}

impl WeightScheme for Knn {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let classes = Classes::new(round.labels);
        let agreement = agreement(embeddings(round)?, &classes, self.k)?;
        let weights: Vec<f64> = agreement.iter().map(|&a| if a < self.threshold { 0.0 } else { 1.0 }).collect();
        if weights.iter().all(|&w| w == 0.0) {
            let highest = agreement.iter().copied().fold(0.0, f64::max);
            return Err(Error::other(format!(
                "no sample reaches an agreement of {}, the highest is {highest:.2}; lower `threshold`",
                self.threshold
            )));
        }
        let (maw, sdaw) = classes.maw_sdaw(&weights);
        let mean = agreement.iter().sum::<f64>() / agreement.len().max(1) as f64;
        let scalars =
            [("agreement", mean), ("maw", maw), ("sdaw", sdaw)].map(|(name, value)| (name.to_string(), value));
        Ok(WeightUpdate { weights, scalars: scalars.into(), columns: vec![("agreement".into(), agreement)] })
    }

    fn before_training(&self) -> bool {
        self.first == First::Embeddings
    }

    fn check(&self) -> Result<()> {
        if self.k == 0 {
            return Err(Error::setting("k", "must be at least 1"));
        }
        if !(0.0..=1.0).contains(&self.threshold) {
            return Err(Error::setting("threshold", "must be between 0 and 1"));
        }
        Ok(())
    }
}

register_weights!("knn", Knn, "leaves out samples whose nearest neighbours have other labels");

/// Similarities in memory at a time: 64 MB in f32.
const TILE: usize = 1 << 24;

/// The share of the `k` nearest samples that have each sample's label; 1 for the only sample of a class.
fn agreement(embeddings: &Tensor, classes: &Classes, k: usize) -> Result<Vec<f64>> {
    in_tiles(embeddings, classes, k, (TILE / classes.samples().max(1)).max(1))
}

fn in_tiles(embeddings: &Tensor, classes: &Classes, k: usize, height: usize) -> Result<Vec<f64>> {
    let samples = classes.samples();
    if embeddings.dim() != 2 || embeddings.size()[0] != samples as i64 {
        let size = embeddings.size();
        return Err(Error::other(format!("embeddings of shape {size:?} do not match {samples} labels")));
    }
    let k = k.min(samples.saturating_sub(1));
    if k == 0 {
        return Ok(vec![1.0; samples]);
    }
    let _no_grad = tch::no_grad_guard();
    let ids: Vec<i64> = classes.ids().iter().map(|&c| c as i64).collect();
    let ids = Tensor::from_slice(&ids).to_device(embeddings.device());
    let kind = if embeddings.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    let (rows, columns) = (embeddings.to_kind(kind), embeddings.to_kind(kind).tr());
    let mut counts = Vec::new();
    for top in (0..samples as i64).step_by(height) {
        let height = (height as i64).min(samples as i64 - top);
        let similarity = mm(&rows.narrow(0, top, height), &columns);
        // A sample is not its own neighbour.
        let _ = similarity.narrow(1, top, height).fill_diagonal_(f64::NEG_INFINITY, false);
        let (_, nearest) = similarity.topk(k as i64, 1, true, false);
        let labels = ids.index_select(0, &nearest.flatten(0, 1)).view([height, k as i64]);
        let same = labels.eq_tensor(&ids.narrow(0, top, height).unsqueeze(1));
        counts.push(same.sum_dim_intlist([1i64].as_slice(), false, Kind::Int64));
    }
    let counts = Vec::<i64>::try_from(Tensor::cat(&counts, 0).to_device(Device::Cpu))?;
    let share = |(sample, count): (usize, i64)| match k.min(classes.size(classes.of(sample)) - 1) {
        0 => 1.0,
        most => count as f64 / most as f64,
    };
    Ok(counts.into_iter().enumerate().map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balanced::tests::{noisy_clusters, round};
    use proptest::prelude::*;

    /// Neighbours by sorting all similarities in f64.
    fn naive(rows: &Tensor, labels: &[i64], k: usize) -> Vec<f64> {
        let similarity: Vec<Vec<f64>> = Vec::try_from(rows.matmul(&rows.tr())).unwrap();
        let agreement = |a: usize| {
            let mut others: Vec<usize> = (0..labels.len()).filter(|&b| b != a).collect();
            let same = others.iter().filter(|&&b| labels[b] == labels[a]).count();
            others.sort_by(|&b, &c| similarity[a][c].total_cmp(&similarity[a][b]));
            let found = others.iter().take(k).filter(|&&b| labels[b] == labels[a]).count();
            if same == 0 { 1.0 } else { found as f64 / k.min(others.len()).min(same) as f64 }
        };
        (0..labels.len()).map(agreement).collect()
    }

    proptest! {
        #[test]
        fn tiles_agree_with_sorting(
            labels in prop::collection::vec(0i64..5, 1..40),
            k in 1usize..12,
            height in 1usize..50,
        ) {
            let rows = noisy_clusters().0.narrow(0, 0, labels.len() as i64).to_kind(Kind::Double);
            let found = in_tiles(&rows, &Classes::new(&labels), k, height).unwrap();
            prop_assert_eq!(found, naive(&rows, &labels, k));
        }
    }

    #[test]
    fn flipped_samples_are_left_out_and_the_others_kept() {
        let (embeddings, labels, flipped) = noisy_clusters();
        let tensors = Tensors::default();
        let weights = vec![1.0; labels.len()];
        let update = Knn::default().update(&round(Some(&embeddings), &labels, &weights, &tensors)).unwrap();
        let right = update.weights.iter().zip(&flipped).filter(|(w, flipped)| (**w == 0.0) == **flipped).count();
        assert!(right as f64 > 0.95 * labels.len() as f64, "{right} of {}", labels.len());
    }

    #[test]
    fn a_threshold_that_leaves_no_sample_is_refused() {
        let rows = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 0.1, 0.1, 1.0]).view([4, 2]);
        let tensors = Tensors::default();
        let scheme = Knn { k: 1, threshold: 1.0, ..Knn::default() };
        let message = scheme.update(&round(Some(&rows), &[0, 0, 1, 1], &[1.0; 4], &tensors)).unwrap_err().to_string();
        assert!(message.contains("lower `threshold`"), "{message}");
    }

    #[test]
    fn invalid_settings_are_refused_with_their_name() {
        let refused = |scheme: Knn| scheme.check().unwrap_err().to_string();
        assert!(refused(Knn { k: 0, ..Knn::default() }).contains("`k`"));
        assert!(refused(Knn { threshold: 1.5, ..Knn::default() }).contains("`threshold`"));
    }
}
