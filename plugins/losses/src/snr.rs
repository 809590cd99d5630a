//! Contrastive loss on the signal-to-noise ratio (Yuan et al., CVPR 2019).

use crate::{finite, not_negative};
use curricle_sdk::gradients::{Embeddings, gradient_of_squared_distances, mean_of_active, not_zero, squared_distances};
use curricle_sdk::prelude::*;

/// Contrastive loss on the SNR distance `d_ij = var(x_j - x_i) / var(x_i)`.
///
/// The mean of `relu(d_ap - m⁺)` over the positive pairs where it is not 0, plus the mean of
/// `relu(m⁻ - d_an)` over the negative pairs where it is not 0, plus `λ · mean_i |Σ_m x_im|`, which
/// keeps the mean of each embedding near zero. Variances are unbiased and over the features; for unit
/// vectors of zero mean `d = 2 - 2S`. A pair counts with `w_i w_j`, a sample in the last mean with
/// `w_i`.
///
/// Equals `SignalToNoiseRatioContrastiveLoss` of pytorch-metric-learning; the last term is
/// its `ZeroMeanRegularizer`. The variance of a difference comes from one matrix product of
/// centred embeddings instead of a `[B, B, D]` tensor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Snr {
    /// Positive margin m⁺: positive pairs closer than this have no loss.
    pub pos_margin: f64,
    /// Negative margin m⁻: negative pairs farther than this have no loss. The paper's text says positive
    /// margin 1 and negative margin 0, at which negatives never repel.
    pub neg_margin: f64,
    /// Strength λ of the zero-mean regulariser.
    #[schemars(range(min = 0.0))]
    pub regularizer: f64,
}

impl Default for Snr {
    fn default() -> Self {
        Self { pos_margin: 0.0, neg_margin: 1.0, regularizer: 0.0 }
    }
}

/// Smaller variances are rounding error of an embedding whose features are all equal.
const MIN_SIGNAL: f64 = 1e-12;

impl Snr {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let (x, pairs, weights) = (batch.embeddings, batch.pairs(), batch.pair_weights());
        let noise = (x.unsqueeze(0) - x.unsqueeze(1)).var_dim(2, true, false);
        let signal = x.var_dim(1, true, true).clamp_min(MIN_SIGNAL);
        let d = noise / signal;
        let (pull, push) = ((&d - self.pos_margin).relu(), (self.neg_margin - d).relu());
        // `sign` is 1 for the pairs that have a loss.
        let mean = |terms: &Tensor, pairs: &Tensor| weighted_mean(terms, &(terms.sign() * pairs * &weights));
        let sums = x.sum_dim_intlist(1, false, None).abs();
        mean(&pull, &pairs.positive)
            + mean(&push, &pairs.negative)
            + weighted_mean(&sums, &batch.weights_or_ones()) * self.regularizer
    }
}

impl Loss for Snr {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let x = &embeddings.points;
        let pairs = batch.pair_masks().to_kind(x.kind());
        let weights = embeddings.pair_weights(batch);

        let degrees = (x.size()[1] - 1) as f64;
        let centred = x - x.mean_dim(1, true, None);
        let noise = squared_distances(&centred) / degrees;
        let signal = (&centred * &centred).sum_dim_intlist(1, true, None) / degrees;
        let floored = signal.clamp_min(MIN_SIGNAL);
        let ratio = noise / &floored;

        let (pull, pull_grad) = mean_of_active(&(&ratio - self.pos_margin), &pairs.positive, weights.as_ref());
        let (push, push_grad) = mean_of_active(&(self.neg_margin - &ratio), &pairs.negative, weights.as_ref());
        let grad = pull_grad - push_grad;
        let mut value = &pull + &push;
        // d = noise/signal: its derivative by the noise is 1/signal, by the anchor's signal -d/signal.
        let by_noise = &grad / &floored;
        let by_signal = -(&by_noise * ratio).sum_dim_intlist(1, true, None) * signal.gt(MIN_SIGNAL);
        let by_centred =
            gradient_of_squared_distances(&centred, &by_noise) / degrees + &centred * (by_signal * (2.0 / degrees));
        let mut gradient = &by_centred - by_centred.mean_dim(1, true, None);
        if self.regularizer > 0.0 {
            let sums = x.sum_dim_intlist(1, true, None);
            let share = match embeddings.weights(batch) {
                Some(w) => (&w / not_zero(&w.sum(None))).unsqueeze(1) * self.regularizer,
                None => sums.full_like(self.regularizer / batch.size() as f64),
            };
            value += (sums.abs() * &share).sum(None);
            gradient += sums.sign() * share;
        }
        log.scalar("positive_gap", || pull);
        log.scalar("negative_gap", || push);
        embeddings.loss(&value, &gradient)
    }

    fn check(&self) -> Result<()> {
        finite("pos_margin", self.pos_margin)?;
        finite("neg_margin", self.neg_margin)?;
        not_negative("regularizer", self.regularizer)
    }

    fn advice(&self, data: &DataFacts) -> Vec<Advice> {
        let mut advice = Vec::new();
        if self.neg_margin <= 0.0 {
            advice.push(Advice::new(
                "neg_margin",
                format!(
                    "negatives never repel with `neg_margin = {}`: the distance is never below 0, so all embeddings \
                     may collapse into one point; use `pos_margin = 0` and `neg_margin = 1`",
                    self.neg_margin
                ),
            ));
        }
        if self.pos_margin >= 4.0 {
            advice.push(Advice::new(
                "pos_margin",
                "positives hardly ever attract: the distance of unit vectors of zero mean is at most 4; use 0",
            ));
        }
        if data.embedding_size == 1 {
            advice.push(Advice::new(
                "",
                "an embedding of size 1 has no variance, so the loss is undefined; use a larger embedding",
            ));
        }
        advice
    }
}

register_loss!("snr", Snr, "contrastive loss on the signal-to-noise distance");
