//! One gradient step.

use super::checks::{check_batch_weights, check_connected, check_log, check_loss};
use super::components::named;
use super::declared::check_declared;
use super::micro_batch::MicroBatches;
use super::optimizer::StepOptions;
use super::sample_columns::LOSS_COLUMNS;
use super::trainer::Trainer;
use crate::call::call;
use crate::data::Samples;
use crate::last_words::running;
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
    /// The weights of the rows; `None` if all are 1.
    weights: Option<Tensor>,
    info: StepInfo,
}

impl EmbeddedBatch {
    /// The batch as a component sees it that declared these tensors.
    fn batch<'a>(&'a self, tensors: &'a Tensors) -> Batch<'a> {
        let (weights, ema_embeddings, info) = (self.weights.as_ref(), self.ema_embeddings.as_ref(), self.info);
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
        let seed = |purpose: &str| rng::seed_for(self.recipe.seed, purpose, self.epoch, self.step as u64);
        let part_seed = |part| seed(&format!("step, micro-batch {part}"));
        let parts = MicroBatches::split(&samples.inputs, self.recipe.train.micro_batch, part_seed);
        let step_seed = seed("step");
        seed_generators(step_seed)?;
        let mut embedded = during("computing embeddings", || self.embed(samples, parts.as_ref(), info))?;
        if parts.is_some() {
            // The loss draws the same numbers however the batch is split.
            seed_generators(step_seed)?;
        }
        stopwatch.count(Phase::Forward, times);

        let mut logs = self.weigh(&mut embedded, logged)?;
        let before = self.components.loss_tensors.versions();
        let (loss, scalars) = self.loss(&embedded, logged)?;
        logs.extend(scalars);
        stopwatch.count(Phase::Loss, times);

        let name = &self.recipe.loss.name;
        let scaled = self.loss_scale.as_ref().map(|scale| scale.apply(&loss));
        // The backward pass may contain code of the loss.
        let backward =
            call(running(ComponentKind::Loss, name), &[], || Ok(scaled.as_ref().unwrap_or(&loss).f_backward()?));
        backward.map_err(|error| {
            let changed = self.components.loss_tensors.changed_since(&before);
            named(ComponentKind::Loss, name)(graph_error(error, &changed))
        })?;
        if let Some(parts) = &parts {
            during("computing gradients", || match curricle_torch::take_gradient(&embedded.embeddings)? {
                Some(derivative) => parts.backward(&self.model, &derivative),
                None => Ok(()),
            })?;
        }
        stopwatch.count(Phase::Backward, times);
        let options = StepOptions {
            lr_factor,
            clip_norm: self.recipe.train.clip_norm,
            want_norm: logged,
            scale: self.loss_scale.as_mut(),
        };
        let norm = during("updating parameters", || Ok(self.optimizer.step(options)?))?;
        // With a loss scale, gradients that are not finite are expected: the step is skipped.
        let checked_norm = norm.as_ref().filter(|_| self.loss_scale.is_none());
        self.meter.push(&with_nan_of(&loss, &embedded.embeddings, checked_norm));
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

    fn embed(
        &self,
        Samples { ids, inputs }: &Samples,
        parts: Option<&MicroBatches>,
        info: StepInfo,
    ) -> curricle_sdk::Result<EmbeddedBatch> {
        let ema = self.ema.as_ref().filter(|_| self.components.need_ema());
        Ok(EmbeddedBatch {
            embeddings: parts.map_or_else(|| Ok(self.model.forward(inputs, true)), |parts| parts.embed(&self.model))?,
            ema_embeddings: ema
                .map(|ema| parts.map_or_else(|| ema.embed(inputs), |parts| parts.map(|part| ema.embed(part)))),
            labels: self.data.labels_on_device.index_select(0, ids),
            weights: self.weights.batch(ids),
            ids: ids.shallow_clone(),
            info,
        })
    }

    /// Lets the weight scheme weigh the batch.
    fn weigh(&mut self, embedded: &mut EmbeddedBatch, logged: bool) -> Result<Vec<(String, Tensor)>> {
        if self.components.weights.is_uniform() {
            return Ok(Vec::new());
        }
        let declared = &self.components.weights_tensors;
        let name = &self.recipe.weights.name;
        // Without the network's graph there is nothing to compute gradients of.
        let embeddings = embedded.embeddings.detach();
        let batch = Batch { embeddings: &embeddings, ..embedded.batch(&declared.tensors) };
        let mut log = log(logged);
        let weighed = call(running(ComponentKind::Weights, name), &inputs(&batch), || {
            let weights = self.components.weights.weigh_batch(&batch, &mut log)?;
            weights.map(|weights| check_batch_weights(&weights, batch.ids)).transpose()
        });
        let kept = weighed.and_then(|weights| {
            check_log(&log)?;
            check_declared(declared)?;
            self.columns.keep("", batch.ids, log.take_per_sample())?;
            Ok(weights)
        });
        if let Some(weights) = kept.map_err(named(ComponentKind::Weights, name))? {
            during("setting weights", || self.weights.set_batch(&embedded.ids, &weights))?;
            // Not those just set: if a sample is in the batch twice, each row has its own.
            embedded.weights = Some(weights.to_kind(embedded.embeddings.kind()));
        }
        Ok(prefixed("weights/", log))
    }

    /// The loss of a batch, with the weights of its samples, and what the loss logged.
    fn loss(&mut self, embedded: &EmbeddedBatch, logged: bool) -> Result<(Tensor, Vec<(String, Tensor)>)> {
        let declared = &self.components.loss_tensors;
        let name = &self.recipe.loss.name;
        let batch = embedded.batch(&declared.tensors);
        let mut log = log(logged);
        let mut lent = inputs(&batch);
        lent.extend(declared.trainable());
        let value = call(running(ComponentKind::Loss, name), &lent, || {
            let loss = check_loss(self.components.loss.forward(&batch, &mut log)?, batch.embeddings)?;
            check_connected(&loss, batch.embeddings)?;
            Ok(loss)
        });
        let checked = value.and_then(|loss| {
            let own_leaf = batch.embeddings.is_leaf() && batch.embeddings.grad().defined();
            if self.optimizer.has_gradients() || own_leaf {
                return Err(curricle_sdk::Error::other(
                    "ran its own backward pass, which left gradients in the parameters; return the loss instead",
                ));
            }
            check_log(&log)?;
            check_declared(declared)?;
            self.columns.keep(LOSS_COLUMNS, batch.ids, log.take_per_sample())?;
            Ok(loss)
        });
        let loss = checked.map_err(named(ComponentKind::Loss, name))?;
        Ok((loss, prefixed("loss/", log)))
    }

    /// What follows the optimiser's step.
    fn after_step(&mut self, info: &StepInfo) -> Result<()> {
        let declared = &self.components.loss_tensors;
        let name = &self.recipe.loss.name;
        let after = call(running(ComponentKind::Loss, name), &[], || {
            tch::no_grad(|| self.components.loss.after_step(&declared.tensors, info))
        });
        after.and_then(|()| check_declared(declared)).map_err(named(ComponentKind::Loss, name))?;
        match &self.ema {
            Some(ema) => during("averaging the network", || ema.update(self.optimizer.steps())),
            None => Ok(()),
        }
    }
}

/// Replaces libtorch's advice about graphs, which is for Python. `changed` are the declared tensors that the loss changed.
pub(crate) fn graph_error(error: curricle_sdk::Error, changed: &[&str]) -> curricle_sdk::Error {
    let curricle_sdk::Error::Torch(message) = &error else { return error };
    let (what, remedy) = if message.contains("modified by an inplace operation") {
        let what = message.split_once(" Hint:").map_or(message.as_str(), |(what, _)| what);
        let remedy = match changed {
            [] => "A tensor changed after the loss used it; let the loss use a copy".into(),
            names => format!(
                "The loss changed its {} `{}` in place after using {}; let it use a copy",
                if names.len() == 1 { "tensor" } else { "tensors" },
                names.join("`, `"),
                if names.len() == 1 { "it" } else { "one of them" },
            ),
        };
        (what, remedy)
    } else if let Some((what, _)) = message.split_once(". Saved intermediate values") {
        let kept =
            "The loss kept a tensor with its graph from an earlier step; declare state and write detached values";
        (what, kept.to_string())
    } else {
        return error;
    };
    curricle_sdk::Error::Torch(format!("{}. {remedy}", what.trim_end_matches('.')))
}

fn log(enabled: bool) -> Log {
    if enabled { Log::enabled() } else { Log::disabled() }
}

fn prefixed(prefix: &str, log: Log) -> Vec<(String, Tensor)> {
    log.into_scalars().into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect()
}

/// The loss, or NaN if the embeddings or the norm of the gradients are not finite: 0 times anything finite is 0.
///
/// Losses that select pairs by comparison can be 0 on NaN embeddings, and a finite loss can have a gradient that is
/// not.
fn with_nan_of(loss: &Tensor, embeddings: &Tensor, norm: Option<&Tensor>) -> Tensor {
    let checked = loss.detach() + embeddings.detach().sum(loss.kind()) * 0.0;
    norm.map_or_else(|| checked.shallow_clone(), |norm| &checked + norm * 0.0)
}

/// The tensors that are lent to a component, by name.
fn inputs<'a>(batch: &Batch<'a>) -> Vec<(&'static str, &'a Tensor)> {
    let mut inputs = vec![("embeddings", batch.embeddings), ("labels", batch.labels), ("ids", batch.ids)];
    inputs.extend(batch.weights.map(|weights| ("weights", weights)));
    inputs.extend(batch.ema_embeddings.map(|embeddings| ("ema_embeddings", embeddings)));
    inputs
}

pub(super) fn seed_generators(seed: i64) -> Result<()> {
    during("seeding the random generators", || Ok(curricle_torch::seed(seed)?))
}

pub(super) fn during<T>(during: &'static str, work: impl FnOnce() -> curricle_sdk::Result<T>) -> Result<T> {
    guard(work).map_err(|source| Error::Torch { during, source })
}
