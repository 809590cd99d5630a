//! FastAP (Cakir et al., CVPR 2019).

use crate::reference;
use curricle_sdk::gradients::{Embeddings, not_zero, squared_distances};
use curricle_sdk::prelude::*;

/// One minus a soft average precision of each anchor's ranking.
///
/// The squared distances of an anchor, from 0 to 4, are counted in soft histograms `h⁺` and `h⁻`
/// of its positives and negatives with L bins of width Δ: node `z` of the L+1 nodes counts
/// `relu(1 - |D² - z|/Δ)`, so each distance is shared between the two nodes around it. With `H` the
/// cumulative sums, `FastAP_i = 1/N⁺_i Σ_z h⁺_z H⁺_z / H_z` (0/0 = 0), and the loss is the mean of
/// `1 - FastAP_i` over the anchors that have positives. With weights, the histograms and the number
/// of positives N⁺ count sample j with `w_j`, and the mean over anchors is weighted by `w_i`.
///
/// Equals `FastAPLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FastAp {
    /// Number of histogram bins L.
    #[schemars(range(min = 1, max = 1000))]
    pub bins: i64,
}

impl Default for FastAp {
    fn default() -> Self {
        Self { bins: 10 }
    }
}

impl FastAp {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (pairs, weights) = (batch.pairs(), batch.weights_or_ones());
        let squared = reference::distances(batch).square();
        let nodes = Tensor::linspace(0.0, 4.0, self.bins + 1, batch.options());
        let width = 4.0 / self.bins as f64;
        let pulses = (1.0f64 - (squared.unsqueeze(2) - nodes).abs() / width).relu();
        let histogram = |pairs: &Tensor| (&pulses * (pairs * &weights).unsqueeze(2)).sum_dim_intlist(1, false, None);
        let positives = histogram(&pairs.positive);
        let all = &positives + histogram(&pairs.negative);
        let precision = positives.cumsum(1, None) / not_zero(&all.cumsum(1, None));
        let count = pairs.positive.matmul(&weights);
        let average_precision = (positives * precision).sum_dim_intlist(1, false, None) / not_zero(&count);
        weighted_mean(&(1.0 - average_precision), &(weights * count.sign()))
    }
}

impl Loss for FastAp {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let kind = embeddings.points.kind();
        let pairs = batch.pair_masks();
        let per_bin = self.bins as f64 / 4.0;
        // Squared distances in units of a bin. Rounding may carry an opposite pair past the last node.
        let position = (squared_distances(&embeddings.points) * per_bin).clamp_max_(self.bins as f64);

        // A distance at u bins adds clamp(z + 1 - u, 0, 1) to the cumulative histogram at node z, so [B, 2, B] masks
        // times [B, L+2, B] ramps give H of the positives and of all pairs at once, starting at node -1.
        let either = pairs.negative.logical_or(&pairs.positive);
        let weights = embeddings.weights(batch);
        let mut masks = Tensor::stack(&[&pairs.positive, &either], 1).to_kind(kind);
        if let Some(weights) = &weights {
            masks *= weights;
        }
        let ends = Tensor::arange(self.bins + 2, (kind, position.device())).unsqueeze(1);
        let ramps = (ends - position.unsqueeze(1)).clamp_(0.0, 1.0);
        let cumulative = masks.bmm(&ramps.transpose(1, 2));
        let before = cumulative.select(1, 0).narrow(1, 0, self.bins + 1);
        let positives = cumulative.select(1, 0).narrow(1, 1, self.bins + 1);
        let all = not_zero(&cumulative.select(1, 1).narrow(1, 1, self.bins + 1));
        let precision = &positives / &all;
        let in_bin = &positives - before;

        // The last node has counted everything.
        let count = not_zero(&positives.select(1, self.bins));
        let average_precision = (&in_bin * &precision).sum_dim_intlist(1, false, None) / &count;
        let counted = positives.select(1, self.bins).sign();
        let counted = match weights {
            Some(weights) => counted * weights,
            None => counted,
        };
        let share = &counted / not_zero(&counted.sum(None));
        let value = share.dot(&(1.0 - &average_precision));

        // With r = H⁺/H and q = h⁺/H, the derivative of Σ_z h⁺_z r_z by H_z is -q_z r_z and by H⁺_z it is
        // r_z + q_z - r_(z+1). A distance in bin z affects only H_z.
        let rate = (in_bin / all).narrow(1, 0, self.bins);
        let here = precision.narrow(1, 0, self.bins);
        let lost = &rate * &here;
        let gained = rate + here - precision.narrow(1, 1, self.bins);
        let by_cumulative = Tensor::stack(&[gained, -lost], 1);
        // Positions are not negative, so the conversion rounds down.
        let bin = position.to_kind(Kind::Int64).clamp_max_(self.bins - 1);
        let bins_of_both = bin.unsqueeze(1).expand([-1, 2, -1], false);
        let by_position = (by_cumulative.gather(2, &bins_of_both, false) * masks).sum_dim_intlist(1, false, None);
        // At distance 0 a ramp has a kink, but the squared distance of equal points has derivative 0 anyway.
        let scale = &share / count * per_bin;
        let grad = by_position * scale.unsqueeze(1);
        log.scalar("average_precision", || average_precision.dot(&share));
        embeddings.loss_of_squared_distances(&value, &grad)
    }

    fn check(&self) -> Result<()> {
        if (1..=1000).contains(&self.bins) {
            return Ok(());
        }
        Err(Error::setting("bins", format!("must be between 1 and 1000, but is {}", self.bins)))
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        if self.bins > 1 {
            return Vec::new();
        }
        let message = "with one bin the histograms hardly distinguish near from far; use 10";
        vec![Advice::new("bins", message)]
    }
}

register_loss!("fastap", FastAp, "average precision through soft histograms of distances");
