//! The training loop: one epoch of gradient steps (the θ-phase).

use super::checks::check_batches;
use super::components::{Components, named};
use super::ema::Ema;
use super::groups;
use super::loss_scale::LossScale;
use super::meter::{LossWindow, Meter, MeterState};
use super::optimizer::Optimizer;
use super::sample_columns::SampleColumns;
use super::schedule::Schedule;
use super::weighting::SampleWeights;
use crate::backbone::Model;
use crate::call::call;
use crate::data::{self, Inputs, View};
use crate::device::memory;
use crate::last_words::running;
use crate::stop::StopSignal;
use crate::track::profile::{Phase, Stopwatch, Times};
use crate::{Error, Result};
use curricle_recipe::{Precision, Recipe};
use curricle_sdk::{ComponentKind, Epoch, StepInfo};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use tch::{Device, Kind, Tensor};

/// The training samples as used by the training loop.
#[derive(Debug)]
pub struct TrainingSet {
    /// The network's inputs, on the training device.
    pub inputs: Inputs,
    /// The (possibly noisy) labels.
    pub labels: Vec<i64>,
    /// Number of classes.
    classes: i64,
    pub(super) labels_on_device: Tensor,
}

impl TrainingSet {
    /// Moves the inputs to the device.
    pub fn new(split: &data::Split, device: Device) -> Self {
        let labels_on_device = Tensor::from_slice(&split.labels).to_device(device);
        let classes = split.class_names.len() as i64;
        Self { inputs: split.inputs.to_device(device), labels: split.labels.clone(), classes, labels_on_device }
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
    /// Numbers per sample that the components logged.
    pub(crate) columns: SampleColumns,
    /// The moving average of the network, if the recipe asks for one.
    pub ema: Option<Ema>,
    /// The epoch being trained, counted from 0.
    pub(super) epoch: u64,
    /// Steps already taken in it.
    pub(super) step: usize,
    /// Losses that have not been logged.
    pub(super) meter: Meter,
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
        let columns = SampleColumns::new(data.labels.len(), device);
        let schedule = Schedule::new(&recipe.schedule, recipe.train.warmup_epochs, recipe.train.epochs);
        Ok(Self {
            recipe,
            data,
            model,
            components,
            optimizer,
            weights,
            columns,
            ema: None,
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

    /// Brings the weights that were set batch by batch to the host, for `weights.values()` and `snapshot`.
    pub(crate) fn read_weights(&mut self) -> Result<()> {
        let name = &self.recipe.weights.name;
        let failed = named(ComponentKind::Weights, name);
        let highest = self.weights.read().map_err(|message| failed(curricle_sdk::Error::other(message)))?;
        if highest == Some(0.0) {
            tracing::warn!(
                "weights `{name}` gave every sample of the last batches, up to epoch {}, the weight 0, so nothing was \
                 learned from them",
                self.epoch + 1
            );
        }
        Ok(())
    }

    /// How far training is, for a checkpoint; `snapshot` has the tensors.
    pub fn position(&mut self) -> TrainerPosition {
        let (epoch, step, global_step) = (self.epoch, self.step, self.global_step());
        TrainerPosition { epoch, step, global_step, meter: self.meter.save() }
    }

    /// Continues from a checkpoint.
    pub fn resume(&mut self, position: TrainerPosition, tensors: &HashMap<String, Tensor>) -> Result<()> {
        // A run of 0 epochs has only the checkpoint before training.
        if position.epoch >= self.recipe.train.epochs.max(1) {
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
        let name = &self.recipe.sampler.name;
        let failed = |source| named(ComponentKind::Sampler, name)(source);
        let batches = call(running(ComponentKind::Sampler, name), &[], || self.components.sampler.batches(&epoch))
            .map_err(failed)?;
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
                self.check_parameters(self.parameter_norm()?.double_value(&[]))?;
                return Ok(EpochEnd::Stopped);
            }
            let size = batches[self.step].len();
            let last = self.step + 1 == batches.len();
            let logged = last || (self.optimizer.steps() + 1).is_multiple_of(self.recipe.train.log_every);
            let factor = self.schedule.factor(self.epoch, self.step, batches.len());
            let mut stopwatch = Stopwatch::start(self.model.device(), self.profiled);
            let Some(batch) = feed.next() else { break };
            stopwatch.count(Phase::Data, &mut times);
            let info = self.step_info(batches.len());
            let taken = batch.and_then(|batch| self.take_step(&batch, info, factor, logged, stopwatch, &mut times));
            let logs = taken.map_err(|e| self.explain_memory(e, size))?;
            self.step += 1;
            steps += 1;
            samples += size;
            if logged {
                let (names, mut tensors): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
                tensors.extend(self.health(last)?);
                let window = self.meter.window(&tensors);
                self.check_health(&window, batches, &window.others[names.len()..])?;
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

    /// Where the next step is, in an epoch of `steps` steps.
    fn step_info(&self, steps: usize) -> StepInfo {
        StepInfo {
            epoch: self.epoch,
            epochs: self.recipe.train.epochs,
            step: self.step as u64,
            steps: steps as u64,
            global_step: self.global_step(),
            classes: self.data.classes,
            samples: self.data.labels.len() as i64,
        }
    }

    /// Adds a remedy to an out-of-memory error in a training step.
    fn explain_memory(&self, error: Error, batch: usize) -> Error {
        memory::explain(error, self.model.device(), || {
            let inputs = self.data.inputs.layout();
            let precision = self.recipe.train.precision;
            let shorter = if precision == Precision::F32 { "`train.precision = \"bf16\"`, " } else { "" };
            let at_once = self.recipe.train.micro_batch.map_or(batch, |size| size.min(batch));
            let in_parts = match at_once / 2 {
                0 => String::new(),
                half => format!("`train.micro_batch = {half}` (less memory for more time), "),
            };
            memory::Need {
                what: format!("a training step with {batch} samples of {inputs} in {precision}"),
                remedy: format!(
                    "try {in_parts}smaller batches (`sampler.classes`, `sampler.per_class`), {shorter}smaller images \
                     (`images.size`) or a smaller network; the last checkpoint is kept"
                ),
            }
        })
    }

    /// Numbers that tell whether training goes wrong, on the device. They are read with the losses.
    fn health(&self, last: bool) -> Result<Vec<Tensor>> {
        let mut health: Vec<_> = self.weights.range_in_steps().map(Vec::from).unwrap_or_default();
        health.extend(self.loss_scale.as_ref().map(LossScale::value));
        if last {
            health.push(self.parameter_norm()?);
        }
        Ok(health)
    }

    /// Stops if the numbers of [`Trainer::health`] or the losses are bad.
    fn check_health(&mut self, window: &LossWindow, batches: &[Vec<i64>], health: &[f32]) -> Result<()> {
        let mut health = health.iter().map(|&value| f64::from(value));
        if self.weights.range_in_steps().is_some() {
            let [low, high] = [health.next(), health.next()].map(Option::unwrap_or_default);
            if !(low >= 0.0 && high <= 1.0) {
                // Names the sample, unless it has been weighed again.
                self.read_weights()?;
                let message = format!("returned weights from {low} to {high} for a batch; they must be in [0, 1]");
                return Err(named(ComponentKind::Weights, &self.recipe.weights.name)(curricle_sdk::Error::other(
                    message,
                )));
            }
        }
        self.stop_if_not_finite(window, batches)?;
        if self.loss_scale.is_some() && health.next().is_some_and(|scale| scale < LossScale::LOWEST) {
            return Err(self.failed(format!(
                "the gradients are not finite at any loss scale: in epoch {}, the last steps before step {} were all \
                 skipped. The last checkpoint is kept. Try `train.precision = \"bf16\"`, which has a wider range",
                self.epoch + 1,
                self.step
            )));
        }
        health.next().map_or(Ok(()), |norm| self.check_parameters(norm))
    }

    fn stop_if_not_finite(&self, window: &LossWindow, batches: &[Vec<i64>]) -> Result<()> {
        let Some(back) = window.first_bad() else { return Ok(()) };
        let step = self.step.saturating_sub(1 + back);
        let ids: Vec<_> = batches[step].iter().map(ToString::to_string).collect();
        Err(self.failed(format!(
            "the loss, the embeddings or the gradients are not finite in epoch {}, step {} of {}; the batch contains \
             the samples {}. The last checkpoint is kept. {}",
            self.epoch + 1,
            step + 1,
            batches.len(),
            ids.join(", "),
            match self.recipe.train.precision {
                Precision::F16 => "Try `train.precision = \"bf16\"`, which has a wider range",
                _ => "Try a lower `optimizer.lr`, or set `train.clip_norm`",
            }
        )))
    }

    /// Before a checkpoint, nothing else would notice that the last step or a rarely used proxy has become NaN.
    fn check_parameters(&self, norm: f64) -> Result<()> {
        if norm.is_finite() {
            return Ok(());
        }
        Err(self.failed(format!(
            "the parameters are not finite after step {} of epoch {}, though the loss was: its gradient or what its \
             `after_step` wrote was not. The last checkpoint is kept",
            self.step,
            self.epoch + 1
        )))
    }

    /// Norm of all parameters, on the device.
    fn parameter_norm(&self) -> Result<Tensor> {
        let parameters = self.optimizer.parameters();
        super::step::during("checking parameters", || match parameters.is_empty() {
            true => Ok(Tensor::zeros([], (Kind::Float, self.model.device()))),
            false => Ok(curricle_torch::norm(&parameters)?),
        })
    }

    /// An error that the loss is blamed for.
    fn failed(&self, message: String) -> Error {
        named(ComponentKind::Loss, &self.recipe.loss.name)(curricle_sdk::Error::other(message))
    }
}
