//! The training loop: one epoch of gradient steps (the θ-phase).

use super::checks::{check_batches, check_log, check_loss};
use super::components::{Components, named};
use super::groups;
use super::loss_scale::LossScale;
use super::meter::{LossWindow, Meter, MeterState};
use super::optimizer::{Optimizer, StepOptions};
use super::schedule::Schedule;
use super::weighting::SampleWeights;
use crate::backbone::Model;
use crate::data::{self, Inputs, Samples, View};
use crate::device::memory;
use crate::stop::StopSignal;
use crate::track::profile::{Phase, Stopwatch, Times};
use crate::{Error, Result};
use curricle_recipe::{Precision, Recipe};
use curricle_sdk::{Batch, ComponentKind, Epoch, Log, guard, rng};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use tch::{Device, Tensor};

/// The training samples as used by the training loop.
#[derive(Debug)]
pub struct TrainingSet {
    /// The network's inputs, on the training device.
    pub inputs: Inputs,
    /// The (possibly noisy) labels.
    pub labels: Vec<i64>,
    labels_on_device: Tensor,
}

impl TrainingSet {
    /// Moves the inputs to the device.
    pub fn new(split: &data::Split, device: Device) -> Self {
        let labels_on_device = Tensor::from_slice(&split.labels).to_device(device);
        Self { inputs: split.inputs.to_device(device), labels: split.labels.clone(), labels_on_device }
    }
}

/// Everything that changes during training.
pub struct Trainer<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The training samples.
    pub data: TrainingSet,
    /// The network.
    pub model: Model,
    /// Loss, sampler and weight scheme.
    pub components: Components,
    /// The optimiser.
    pub optimizer: Optimizer,
    /// The samples' weights.
    pub weights: SampleWeights,
    /// The epoch being trained, counted from 0.
    epoch: u64,
    /// Steps already taken in it.
    step: usize,
    /// Losses that have not been logged.
    meter: Meter,
    /// The loss scale, for networks in f16.
    pub loss_scale: Option<LossScale>,
    /// Whether to wait for the device after every phase of a step.
    pub profiled: bool,
    schedule: Schedule,
}

/// How far training is.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainerPosition {
    /// The epoch being trained, counted from 0.
    pub epoch: u64,
    /// Steps already taken in it.
    pub step: usize,
    /// Steps taken since the start of training.
    pub global_step: u64,
    /// Losses that have not been logged.
    pub meter: MeterState,
}

/// The steps since the last report.
#[derive(Debug)]
pub struct StepReport {
    /// Steps since the start of training.
    pub global_step: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// Steps in this report.
    pub steps: usize,
    /// Mean loss.
    pub loss: f64,
    /// Learning rate of each parameter group in the last step.
    pub learning_rates: BTreeMap<String, f64>,
    /// Scalars logged by the loss, and the gradient norm.
    pub scalars: Vec<(String, f64)>,
    /// Samples seen.
    pub samples: usize,
    /// Time per phase. On CUDA, unless the trainer is profiled, these are the times to queue the work;
    /// the total is still right, since each report waits for the device.
    pub times: Times,
    /// Total time.
    pub total: Duration,
}

/// How an epoch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochEnd {
    /// All its steps were taken.
    Complete,
    /// A stop was requested.
    Stopped,
}

impl<'a> Trainer<'a> {
    /// A trainer before its first step.
    pub fn new(recipe: &'a Recipe, data: TrainingSet, model: Model, components: Components) -> Result<Self> {
        let optimizer = Optimizer::new(&recipe.optimizer, groups::parameters(recipe, &model, &components)?);
        let device = model.device();
        let weights = SampleWeights::ones(data.labels.len(), components.weights.is_uniform(), device);
        let schedule = Schedule::new(&recipe.schedule, recipe.train.warmup_epochs, recipe.train.epochs);
        Ok(Self {
            recipe,
            data,
            model,
            components,
            optimizer,
            weights,
            epoch: 0,
            step: 0,
            meter: Meter::default(),
            loss_scale: (recipe.train.precision == Precision::F16).then(|| LossScale::new(device)),
            profiled: false,
            schedule,
        })
    }

    /// The epoch being trained, counted from 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Steps already taken in the current epoch.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Steps taken since the start of training.
    pub(crate) fn global_step(&self) -> u64 {
        self.optimizer.steps()
    }

    /// Mean loss of the current epoch.
    pub(crate) fn mean_loss(&self) -> f64 {
        self.meter.epoch_mean()
    }

    /// Moves on to the next epoch.
    pub fn finish_epoch(&mut self) {
        self.epoch += 1;
        self.step = 0;
        self.meter = Meter::default();
    }

    /// How far training is, for a checkpoint; `snapshot` has the tensors.
    pub fn position(&mut self) -> TrainerPosition {
        let (epoch, step, global_step) = (self.epoch, self.step, self.global_step());
        TrainerPosition { epoch, step, global_step, meter: self.meter.save() }
    }

    /// Continues from a checkpoint.
    pub fn resume(&mut self, position: TrainerPosition, tensors: &HashMap<String, Tensor>) -> Result<()> {
        if position.epoch >= self.recipe.train.epochs {
            return Err(Error::CheckpointMismatch);
        }
        self.restore(tensors, position.global_step)?;
        self.epoch = position.epoch;
        self.step = position.step;
        self.meter = Meter::restore(position.meter);
        if self.step > self.batches()?.len() {
            return Err(Error::CheckpointMismatch);
        }
        Ok(())
    }

    /// The batches of the current epoch, checked.
    pub fn batches(&self) -> Result<Vec<Vec<i64>>> {
        let epoch = Epoch { labels: &self.data.labels, seed: self.recipe.seed, epoch: self.epoch };
        let failed = |source| named(ComponentKind::Sampler, &self.recipe.sampler.name)(source);
        let batches = guard(|| self.components.sampler.batches(&epoch)).map_err(failed)?;
        check_batches(&batches, self.data.labels.len()).map_err(|m| failed(curricle_sdk::Error::other(m)))?;
        Ok(batches)
    }

    /// Takes the remaining steps of the current epoch and reports every `train.log_every` steps.
    pub fn run_epoch(
        &mut self,
        batches: &[Vec<i64>],
        stop: &StopSignal,
        mut report: impl FnMut(&StepReport) -> Result<()>,
    ) -> Result<EpochEnd> {
        self.model.set_backbone_frozen(self.epoch < self.recipe.train.head_epochs);
        let view = View::Train { seed: self.recipe.seed, epoch: self.epoch };
        let mut feed = self.data.inputs.feed(batches, self.step, view, self.model.device())?;
        let (mut times, mut steps, mut samples, mut since) = (Times::default(), 0, 0, Instant::now());
        while self.step < batches.len() {
            if stop.requested() {
                return Ok(EpochEnd::Stopped);
            }
            let size = batches[self.step].len();
            let last = self.step + 1 == batches.len();
            let logged = last || (self.optimizer.steps() + 1).is_multiple_of(self.recipe.train.log_every);
            let factor = self.schedule.factor(self.epoch, self.step, batches.len());
            let mut stopwatch = Stopwatch::start(self.model.device(), self.profiled);
            let Some(batch) = feed.next() else { break };
            stopwatch.count(Phase::Data, &mut times);
            let taken = batch.and_then(|batch| self.take_step(&batch, factor, logged, stopwatch, &mut times));
            let logs = taken.map_err(|e| self.explain_memory(e, size))?;
            self.step += 1;
            steps += 1;
            samples += size;
            if logged {
                let (names, tensors): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
                let window = self.meter.window(&tensors);
                self.stop_if_not_finite(&window, batches)?;
                let others = window.others.iter().map(|&value| f64::from(value));
                report(&StepReport {
                    global_step: self.optimizer.steps(),
                    epoch: self.epoch,
                    steps,
                    loss: window.mean(),
                    learning_rates: self.optimizer.learning_rates(factor),
                    scalars: names.into_iter().zip(others).collect(),
                    samples,
                    times,
                    total: since.elapsed(),
                })?;
                (times, steps, samples, since) = (Times::default(), 0, 0, Instant::now());
            }
        }
        Ok(EpochEnd::Complete)
    }

    /// One gradient step; nothing in it waits for the device.
    fn take_step(
        &mut self,
        samples: &Samples,
        lr_factor: f64,
        logged: bool,
        mut stopwatch: Stopwatch,
        times: &mut Times,
    ) -> Result<Vec<(String, Tensor)>> {
        // Dropout and losses that sample use libtorch's generator. It is seeded at every step, so that a
        // resumed epoch draws the same numbers.
        tch::manual_seed(rng::seed_for(self.recipe.seed, "step", self.epoch, self.step as u64));
        let Samples { ids, inputs } = samples;
        let labels = self.data.labels_on_device.index_select(0, ids);
        let weights = self.weights.batch(ids);
        let embeddings = during("computing embeddings", || Ok(self.model.forward(inputs, true)))?;
        stopwatch.count(Phase::Forward, times);

        let mut log = if logged { Log::enabled() } else { Log::disabled() };
        let tensors = &self.components.loss_tensors.tensors;
        let batch = Batch { weights: weights.as_ref(), ..Batch::new(&embeddings, &labels, ids, tensors) };
        let loss = guard(|| {
            let loss = check_loss(self.components.loss.forward(&batch, &mut log)?, &embeddings)?;
            check_log(&log)?;
            Ok(loss)
        });
        let loss = loss.map_err(named(ComponentKind::Loss, &self.recipe.loss.name))?;
        stopwatch.count(Phase::Loss, times);

        let scaled = self.loss_scale.as_ref().map(|scale| scale.apply(&loss));
        during("computing gradients", || Ok(scaled.as_ref().unwrap_or(&loss).f_backward()?))?;
        stopwatch.count(Phase::Backward, times);
        // Losses that select pairs by comparison can be 0 on NaN embeddings, so these are checked too: 0
        // times anything finite is 0.
        let embeddings_finite = embeddings.detach().sum(loss.kind()) * 0.0;
        self.meter.push(&(loss.detach() + embeddings_finite));
        let options = StepOptions {
            lr_factor,
            clip_norm: self.recipe.train.clip_norm,
            want_norm: logged,
            scale: self.loss_scale.as_mut(),
        };
        let norm = during("updating parameters", || Ok(self.optimizer.step(options)?))?;
        stopwatch.count(Phase::Optimizer, times);

        let mut logs = log.into_scalars();
        logs.iter_mut().for_each(|(name, _)| name.insert_str(0, "loss/"));
        if logged {
            logs.extend(norm.map(|norm| ("train/gradient_norm".to_string(), norm)));
            if let Some(scale) = &self.loss_scale {
                logs.push(("train/loss_scale".into(), scale.value()));
                logs.push(("train/skipped_steps".into(), scale.skipped()));
            }
        }
        Ok(logs)
    }

    /// Adds a remedy to an out-of-memory error in a training step.
    fn explain_memory(&self, error: Error, batch: usize) -> Error {
        memory::explain(error, self.model.device(), || {
            let inputs = self.data.inputs.layout();
            let precision = self.recipe.train.precision;
            let shorter = if precision == Precision::F32 { "`train.precision = \"bf16\"`, " } else { "" };
            memory::Need {
                what: format!("a training step with {batch} samples of {inputs} in {precision}"),
                remedy: format!(
                    "try smaller batches (`sampler.classes`, `sampler.per_class`), {shorter}smaller images \
                     (`images.size`) or a smaller network; the last checkpoint is kept"
                ),
            }
        })
    }

    fn stop_if_not_finite(&self, window: &LossWindow, batches: &[Vec<i64>]) -> Result<()> {
        let Some(back) = window.first_bad() else { return Ok(()) };
        let step = self.step.saturating_sub(1 + back);
        let ids: Vec<_> = batches[step].iter().map(ToString::to_string).collect();
        let message = format!(
            "the loss or the embeddings are not finite in epoch {}, step {} of {}; the batch contains the samples {}. \
             The last checkpoint is kept. {}",
            self.epoch + 1,
            step + 1,
            batches.len(),
            ids.join(", "),
            match self.recipe.train.precision {
                Precision::F16 => "Try `train.precision = \"bf16\"`, which has a wider range",
                _ => "Try a lower `optimizer.lr`, or set `train.clip_norm`",
            }
        );
        Err(named(ComponentKind::Loss, &self.recipe.loss.name)(curricle_sdk::Error::other(message)))
    }
}

fn during<T>(during: &'static str, work: impl FnOnce() -> curricle_sdk::Result<T>) -> Result<T> {
    guard(work).map_err(|source| Error::Torch { during, source })
}
