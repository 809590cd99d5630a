//! One gradient step.

use super::checks::{check_batch_weights, check_connected, check_log, check_loss};
use super::components::named;
use super::declared::check_declared;
use super::optimizer::StepOptions;
use super::sample_columns::LOSS_COLUMNS;
use super::trainer::Trainer;
use crate::call::call;
use crate::data::Samples;
use crate::track::profile::{Phase, Stopwatch, Times};
use crate::{Error, Result};
use curricle_sdk::{Batch, ComponentKind, Log, StepInfo, Tensors, guard, rng};
use tch::Tensor;

/// A batch after the forward pass.
struct EmbeddedBatch {
    embeddings: Tensor,
    ema_embeddings: Option<Tensor>,
    labels: Tensor,
    ids: Tensor,
    info: StepInfo,
}

impl EmbeddedBatch {
    /// The batch as a component sees it that declared these tensors.
    fn batch<'a>(&'a self, weights: Option<&'a Tensor>, tensors: &'a Tensors) -> Batch<'a> {
        let ema_embeddings = self.ema_embeddings.as_ref();
        let info = self.info;
        Batch { weights, ema_embeddings, info, ..Batch::new(&self.embeddings, &self.labels, &self.ids, tensors) }
    }
}

impl Trainer<'_> {
    /// Takes one step and returns the logged scalars; nothing in it waits for the device.
    pub(super) fn take_step(
        &mut self,
        samples: &Samples,
        info: StepInfo,
        lr_factor: f64,
        logged: bool,
        mut stopwatch: Stopwatch,
        times: &mut Times,
    ) -> Result<Vec<(String, Tensor)>> {
        // Dropout and losses that sample use libtorch's generator. It is seeded at every step, so that a
        // resumed epoch draws the same numbers.
        tch::manual_seed(rng::seed_for(self.recipe.seed, "step", self.epoch, self.step as u64));
        let embedded = during("computing embeddings", || Ok(self.embed(samples, info)))?;
        stopwatch.count(Phase::Forward, times);

        let mut logs = self.weigh(&embedded, logged)?;
        let (loss, scalars) = self.loss(&embedded, logged)?;
        logs.extend(scalars);
        stopwatch.count(Phase::Loss, times);

        let failed = named(ComponentKind::Loss, &self.recipe.loss.name);
        let scaled = self.loss_scale.as_ref().map(|scale| scale.apply(&loss));
        guard(|| Ok(scaled.as_ref().unwrap_or(&loss).f_backward()?)).map_err(failed)?;
        stopwatch.count(Phase::Backward, times);
        // Losses that select pairs by comparison can be 0 on NaN embeddings, so these are checked too: 0
        // times anything finite is 0.
        let embeddings_finite = embedded.embeddings.detach().sum(loss.kind()) * 0.0;
        self.meter.push(&(loss.detach() + embeddings_finite));
        let options = StepOptions {
            lr_factor,
            clip_norm: self.recipe.train.clip_norm,
            want_norm: logged,
            scale: self.loss_scale.as_mut(),
        };
        let norm = during("updating parameters", || Ok(self.optimizer.step(options)?))?;
        self.after_step(&info)?;
        stopwatch.count(Phase::Optimizer, times);

        if logged {
            logs.extend(norm.map(|norm| ("train/gradient_norm".to_string(), norm)));
            if let Some(scale) = &self.loss_scale {
                logs.push(("train/loss_scale".into(), scale.value()));
                logs.push(("train/skipped_steps".into(), scale.skipped()));
            }
        }
        Ok(logs)
    }

    fn embed(&self, Samples { ids, inputs }: &Samples, info: StepInfo) -> EmbeddedBatch {
        let ema = self.ema.as_ref().filter(|_| self.components.need_ema());
        EmbeddedBatch {
            embeddings: self.model.forward(inputs, true),
            ema_embeddings: ema.map(|ema| ema.embed(inputs)),
            labels: self.data.labels_on_device.index_select(0, ids),
            ids: ids.shallow_clone(),
            info,
        }
    }

    /// Lets the weight scheme weigh the batch.
    fn weigh(&mut self, embedded: &EmbeddedBatch, logged: bool) -> Result<Vec<(String, Tensor)>> {
        if self.components.weights.is_uniform() {
            return Ok(Vec::new());
        }
        let declared = &self.components.weights_tensors;
        let (embeddings, weights) = (embedded.embeddings.detach(), self.weights.batch(&embedded.ids));
        let batch = Batch { embeddings: &embeddings, ..embedded.batch(weights.as_ref(), &declared.tensors) };
        let mut log = log(logged);
        let weighed = call(&inputs(&batch), || {
            let weights = self.components.weights.weigh_batch(&batch, &mut log)?;
            weights.map(|weights| check_batch_weights(&weights, batch.ids)).transpose()
        });
        let kept = weighed.and_then(|weights| {
            check_log(&log)?;
            check_declared(declared)?;
            self.columns.keep("", batch.ids, log.take_per_sample())?;
            Ok(weights)
        });
        let weights = kept.map_err(named(ComponentKind::Weights, &self.recipe.weights.name))?;
        if let Some(weights) = weights {
            during("setting weights", || self.weights.set_batch(&embedded.ids, &weights))?;
        }
        Ok(prefixed("weights/", log))
    }

    /// The loss of a batch, with the weights of its samples, and what the loss logged.
    fn loss(&mut self, embedded: &EmbeddedBatch, logged: bool) -> Result<(Tensor, Vec<(String, Tensor)>)> {
        let declared = &self.components.loss_tensors;
        let weights = self.weights.batch(&embedded.ids);
        let batch = embedded.batch(weights.as_ref(), &declared.tensors);
        let mut log = log(logged);
        let value = call(&inputs(&batch), || {
            let loss = check_loss(self.components.loss.forward(&batch, &mut log)?, batch.embeddings)?;
            // Tells nothing new in later steps, and costs another backward pass of the loss.
            if !std::mem::replace(&mut self.stepped, true) {
                check_connected(&loss, batch.embeddings)?;
            }
            Ok(loss)
        });
        let checked = value.and_then(|loss| {
            if self.optimizer.has_gradients() {
                return Err(curricle_sdk::Error::other("computed gradients of the network's parameters itself"));
            }
            check_log(&log)?;
            check_declared(declared)?;
            self.columns.keep(LOSS_COLUMNS, batch.ids, log.take_per_sample())?;
            Ok(loss)
        });
        let loss = checked.map_err(named(ComponentKind::Loss, &self.recipe.loss.name))?;
        Ok((loss, prefixed("loss/", log)))
    }

    /// What follows the optimiser's step.
    fn after_step(&mut self, info: &StepInfo) -> Result<()> {
        let declared = &self.components.loss_tensors;
        let after = call(&[], || tch::no_grad(|| self.components.loss.after_step(&declared.tensors, info)));
        after.and_then(|()| check_declared(declared)).map_err(named(ComponentKind::Loss, &self.recipe.loss.name))?;
        match &self.ema {
            Some(ema) => during("averaging the network", || ema.update(&self.model, self.optimizer.steps())),
            None => Ok(()),
        }
    }
}

fn log(enabled: bool) -> Log {
    if enabled { Log::enabled() } else { Log::disabled() }
}

fn prefixed(prefix: &str, log: Log) -> Vec<(String, Tensor)> {
    log.into_scalars().into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect()
}

/// The tensors that are lent to a component, by name.
fn inputs<'a>(batch: &Batch<'a>) -> Vec<(&'static str, &'a Tensor)> {
    let mut inputs = vec![("embeddings", batch.embeddings), ("labels", batch.labels), ("ids", batch.ids)];
    inputs.extend(batch.weights.map(|weights| ("weights", weights)));
    inputs.extend(batch.ema_embeddings.map(|embeddings| ("ema_embeddings", embeddings)));
    inputs
}

pub(super) fn during<T>(during: &'static str, work: impl FnOnce() -> curricle_sdk::Result<T>) -> Result<T> {
    guard(work).map_err(|source| Error::Torch { during, source })
}
