//! FastAP (Cakir et al., CVPR 2019).

use crate::distances::squared_distances;
use crate::embeddings::Embeddings;
use crate::masks::Masks;
use crate::means::not_zero;
use curricle_sdk::prelude::*;

/// One minus a soft average precision of each anchor's ranking.
///
/// The squared distances of an anchor, from 0 to 4, are counted in soft histograms `h⁺` and `h⁻`
/// of its positives and negatives: L bins, L+1 nodes `z`, each distance shared between the two
/// nodes around it. With `H` the running sums,
/// `FastAP_i = 1/N⁺_i Σ_z h⁺_z H⁺_z / H_z` (0/0 = 0), and the loss is the mean of `1 - FastAP_i`
/// over the anchors that have positives, weighted by `w_i`.
///
/// The same as `FastAPLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FastAp {
    /// Number of histogram bins, L.
    #[schemars(range(min = 1, max = 1000))]
    pub bins: i64,
}

impl Default for FastAp {
    fn default() -> Self {
        Self { bins: 10 }
    }
}

impl Loss for FastAp {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let kind = embeddings.points.kind();
        let pairs = Masks::of(batch);
        let per_bin = self.bins as f64 / 4.0;
        // Distances in units of a bin. Rounding may carry an opposite pair past the last node.
        let place = (squared_distances(&embeddings.points) * per_bin).clamp_max_(self.bins as f64);

        // [B, 2, B] masks times [B, L+1, B] pulses: both histograms in one product.
        let masks = Tensor::stack(&[&pairs.positive, &pairs.negative], 1).to_kind(kind);
        let nodes = Tensor::arange(self.bins + 1, (kind, place.device()));
        let pulses = (place.unsqueeze(1) - nodes.unsqueeze(1)).abs_().neg_().g_add_scalar_(1.0).relu_();
        let histograms = masks.bmm(&pulses.transpose(1, 2));
        let positives = histograms.select(1, 0);
        let running = histograms.cumsum(2, None);
        let running_positives = running.select(1, 0);
        let running_all = not_zero(&(&running_positives + running.select(1, 1)));

        let precision = running_positives / &running_all;
        let count = masks.select(1, 0).sum_dim_intlist(1, false, None);
        let average_precision = (&positives * &precision).sum_dim_intlist(1, false, None) / not_zero(&count);
        let counted = count.sign();
        let counted = match embeddings.weights(batch) {
            Some(weights) => counted * weights,
            None => counted,
        };
        let share = &counted / not_zero(&counted.sum(None));
        let value = (&share - &average_precision * &share).sum(None);
        log.scalar("average_precision", || (average_precision * &share).sum(None));

        // ∂(Σ_z h⁺ H⁺/H)/∂h⁺_z = H⁺_z/H_z + Σ_{y≥z} (h⁺/H)(1 - H⁺/H)_y, and by h⁻_z it is
        // -Σ_{y≥z} (h⁺ H⁺/H²)_y.
        let rate = positives / running_all;
        let lost = sum_from_here(&(&rate * &precision));
        let by_positive = precision + sum_from_here(&rate) - &lost;
        let by_histogram = Tensor::stack(&[&by_positive, &-lost], 1);
        // A distance between two nodes moves weight from the lower to the upper one.
        let steps = by_histogram.diff(1, 2, None::<&Tensor>, None::<&Tensor>);
        let bin = place.floor().clamp_max_(self.bins as f64 - 1.0).to_kind(Kind::Int64);
        let by_place = (steps.gather(2, &bin.unsqueeze(1).expand([-1, 2, -1], false), false) * masks)
            .sum_dim_intlist(1, false, None);
        // At distance 0 a pulse has a corner; take the derivative 0 there.
        let scale = share / not_zero(&count) * -per_bin;
        let slope = by_place * scale.unsqueeze(1) * place.sign();
        Ok(embeddings.loss_of_squared_distances(&value, &slope))
    }

    fn check(&self) -> Result<()> {
        if (1..=1000).contains(&self.bins) {
            return Ok(());
        }
        Err(Error::setting("bins", format!("must be between 1 and 1000, is {}", self.bins)))
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        if self.bins > 1 {
            return Vec::new();
        }
        let message = "with one bin the histograms hardly tell near from far; 10 is usual";
        vec![Advice::new("bins", message)]
    }
}

/// `Σ_{y≥z} a_y` along the last dimension.
fn sum_from_here(a: &Tensor) -> Tensor {
    a.sum_dim_intlist(1, true, None) - a.cumsum(1, None) + a
}

register_loss!("fastap", FastAp, "average precision through soft histograms of distances");
