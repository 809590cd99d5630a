//! Weight schemes: how much each training sample counts.

use crate::{Advice, Batch, DataFacts, Log, Result, Shape, TensorSpec, Tensors};
use tch::Tensor;

/// The recipe's loss, for schemes that take their constants from it.
#[derive(Debug, Clone, Copy)]
pub struct LossInfo<'a> {
    /// Its name, e.g. `bspml`.
    pub name: &'a str,
    /// Its settings, defaults filled in.
    pub settings: &'a serde_json::Value,
}

impl LossInfo<'_> {
    /// A numeric setting of the loss, if it has one of that name.
    pub fn number(&self, setting: &str) -> Option<f64> {
        self.settings.get(setting).and_then(serde_json::Value::as_f64)
    }
}

/// MAW and SDAW: mean and population standard deviation of the classes' average weights.
pub fn maw_sdaw(average_weights: &[f64]) -> (f64, f64) {
    let count = average_weights.len().max(1) as f64;
    let maw = average_weights.iter().sum::<f64>() / count;
    let variance = average_weights.iter().map(|z| (z - maw).powi(2)).sum::<f64>() / count;
    (maw, variance.sqrt())
}

/// What a weight scheme sees after the θ-phase of a round.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// The round, counted from 1; 0 is the one [before training](WeightScheme::before_training).
    pub round: u64,
    /// Rounds in the whole run.
    pub rounds: u64,
    /// The run's seed.
    pub seed: u64,
    /// Eval-mode embeddings of the whole training set `[N, D]`, unit norm, without gradient, on the training
    /// device; `None` if the scheme does not need them.
    pub embeddings: Option<&'a Tensor>,
    /// The (possibly noisy) label of every training sample, from 0 to C-1.
    pub labels: &'a [i64],
    /// Current weights, in [0, 1].
    pub weights: &'a [f64],
    /// The tensors the scheme declared. In-place changes are kept.
    pub tensors: &'a Tensors,
    /// The recipe's loss.
    pub loss: LossInfo<'a>,
    /// The age λ, if it overrides the one of the scheme's schedule.
    pub age: Option<f64>,
    /// The same by the moving average of the network; `Some` if the scheme [needs them](WeightScheme::needs_ema).
    pub ema_embeddings: Option<&'a Tensor>,
    /// Which samples have a label that the recipe's noise changed; `None` if that is not known. A method must not
    /// use it, because it is unknown for real data; it is for upper bounds such as `oracle`.
    pub flipped: Option<&'a [bool]>,
}

impl<'a> Round<'a> {
    /// The only round of a run, without embeddings; the other fields are set by
    /// `Round { embeddings: Some(&embeddings), ..Round::new(…) }`.
    pub fn new(labels: &'a [i64], weights: &'a [f64], tensors: &'a Tensors, loss: LossInfo<'a>) -> Self {
        let (embeddings, age, ema_embeddings, flipped) = (None, None, None, None);
        Self { round: 1, rounds: 1, seed: 0, embeddings, labels, weights, tensors, loss, age, ema_embeddings, flipped }
    }
}

/// The result of a weight scheme.
#[derive(Debug, Clone, Default)]
pub struct WeightUpdate {
    /// The new weight of every sample, in [0, 1].
    pub weights: Vec<f64>,
    /// Named numbers for the log, such as `lambda` and `objective`.
    pub scalars: Vec<(String, f64)>,
    /// Named numbers per sample, such as `xi_pos`; they become columns of `samples.csv`.
    pub columns: Vec<(String, Vec<f64>)>,
}

/// Decides how much every training sample counts: for the next round after each θ-phase (`update`), or in every
/// step for the batch at hand (`weigh_batch`), or both.
pub trait WeightScheme: Send + Sync {
    /// The weights of the next round. Unless a scheme says otherwise, they stay as they are.
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        Ok(WeightUpdate { weights: round.weights.to_vec(), ..Default::default() })
    }

    /// The weights `[B]` of a batch, in [0, 1], before the loss of the batch is computed; `None` leaves those of the
    /// round. The embeddings carry no gradient. Stay on the device of the inputs. The weights returned here become
    /// the samples' weights: in `samples.csv`, in the AUROC of the weights and in TensorBoard.
    fn weigh_batch(&self, _batch: &Batch, _log: &mut Log) -> Result<Option<Tensor>> {
        Ok(None)
    }

    /// Whether `update` is also called before the first step, as round 0, with the embeddings of the initial network.
    fn before_training(&self) -> bool {
        false
    }

    /// Whether `update` and `weigh_batch` read the embeddings of the network's moving average, which needs
    /// `train.ema`.
    fn needs_ema(&self) -> bool {
        false
    }

    /// Whether `update` reads the embeddings. Computing them costs a pass over the data.
    fn needs_embeddings(&self) -> bool {
        true
    }

    /// Whether `update` needs [`Round::flipped`], so that a recipe without label noise is refused. Only built-in
    /// schemes get it.
    fn needs_flips(&self) -> bool {
        false
    }

    /// Whether all weights are always 1, so that losses skip weighting altogether.
    fn is_uniform(&self) -> bool {
        false
    }

    /// Tensors that keep their values from round to round.
    fn tensors(&self, _shape: &Shape) -> Vec<TensorSpec> {
        Vec::new()
    }

    /// Rejects settings that cannot work together. Called once, before anything else.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Warnings about settings that are valid but degenerate.
    fn advice(&self, _data: &DataFacts, _loss: &LossInfo) -> Vec<Advice> {
        Vec::new()
    }
}
