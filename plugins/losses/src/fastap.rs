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

        // A distance at u bins adds clamp(z + 1 - u, 0, 1) to the running histogram at node z, so
        // [B, 2, B] masks times [B, L+2, B] ramps give H of positives and of all at once, from node -1 on.
        let either = pairs.negative.logical_or(&pairs.positive);
        let masks = Tensor::stack(&[&pairs.positive, &either], 1).to_kind(kind);
        let ends = Tensor::arange(self.bins + 2, (kind, place.device())).unsqueeze(1);
        let ramps = (ends - place.unsqueeze(1)).clamp_(0.0, 1.0);
        let running = masks.bmm(&ramps.transpose(1, 2));
        let before = running.select(1, 0).narrow(1, 0, self.bins + 1);
        let positives = running.select(1, 0).narrow(1, 1, self.bins + 1);
        let all = not_zero(&running.select(1, 1).narrow(1, 1, self.bins + 1));
        let precision = &positives / &all;
        let in_bin = &positives - before;

        // The last node has seen everything.
        let count = not_zero(&positives.select(1, self.bins));
        let average_precision = (&in_bin * &precision).sum_dim_intlist(1, false, None) / &count;
        let counted = positives.select(1, self.bins).sign();
        let counted = match embeddings.weights(batch) {
            Some(weights) => counted * weights,
            None => counted,
        };
        let share = &counted / not_zero(&counted.sum(None));
        let value = share.dot(&(1.0 - &average_precision));

        // With r = H⁺/H and q = h⁺/H the sum Σ_z h⁺_z r_z changes with H_z by -q_z r_z, and with
        // H⁺_z by r_z + q_z - r_(z+1); a distance in bin z lowers H_z alone.
        let rate = (in_bin / all).narrow(1, 0, self.bins);
        let here = precision.narrow(1, 0, self.bins);
        let lost = &rate * &here;
        let gained = rate + here - precision.narrow(1, 1, self.bins);
        let by_running = Tensor::stack(&[gained, -lost], 1);
        let bin = place.floor().clamp_max_(self.bins as f64 - 1.0).to_kind(Kind::Int64);
        let bins_of_both = bin.unsqueeze(1).expand([-1, 2, -1], false);
        let by_place = (by_running.gather(2, &bins_of_both, false) * masks).sum_dim_intlist(1, false, None);
        // At distance 0 a ramp has a corner; take the derivative 0 there.
        let scale = &share / count * per_bin;
        let slope = by_place * scale.unsqueeze(1) * place.sign();
        log.scalar("average_precision", || average_precision.dot(&share));
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

register_loss!("fastap", FastAp, "average precision through soft histograms of distances");
