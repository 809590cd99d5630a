//! The run loop: prepare, train, update the weights, evaluate, write the results.

use super::announce::announce;
use super::checkpoint::{self, Checkpoint, Position};
use super::checkpoint_writer::CheckpointWriter;
use super::evaluation::{embed_test, embed_training, evaluate};
use super::observe::{self, Weighted};
use super::options::{RunOptions, RunOutcome};
use super::prepare::{Prepared, prepare};
use super::projector::{self, Points};
use super::{samples, start_files};
use crate::device;
use crate::experiment::Experiment;
use crate::progress::{EpochSummary, Progress};
use crate::stop::StopSignal;
use crate::tensor_file::{self, HostTensors};
use crate::track::{Phase, Profile, ProfileSummary, Tracker};
use crate::train::noise_report::NoiseReport;
use crate::train::weighting::{self, Known};
use crate::train::{EpochEnd, Trainer, TrainerPosition};
use crate::{Error, Result};
use curricle_recipe::{EvalOn, NoiseRecipe, Recipe};
use curricle_record::{FORMAT, LockedRun, Metrics, RunResult, files};
use std::time::Instant;
use tch::Tensor;

pub(super) struct RunLoop<'a> {
    experiment: &'a Experiment,
    folder: LockedRun,
    prepared: Prepared<'a>,
    tracker: Tracker,
    progress: Progress,
    started: Instant,
    profile: Profile,
    checkpoints: CheckpointWriter,
    /// State in a checkpoint besides the trainer.
    carried: Carried,
}

/// State that is kept until the end of the run.
struct Carried {
    untrained: Metrics,
    batches_hash: String,
    /// Seconds that earlier processes spent on this run.
    seconds_before: f64,
}

/// Results of the last epoch.
#[derive(Default)]
struct LastEpoch {
    metrics: Option<Metrics>,
    loss: f64,
    weighting: Vec<(String, f64)>,
    columns: Vec<(String, Vec<f64>)>,
    /// Embeddings of the training samples, if the weight update needed them.
    training: Option<Tensor>,
    /// Embeddings of the test samples, if they were evaluated.
    test: Option<Tensor>,
}

impl<'a> RunLoop<'a> {
    /// Prepares the run and resumes from its last checkpoint, if there is one.
    pub(super) fn begin(experiment: &'a Experiment, options: &RunOptions, folder: LockedRun) -> Result<Self> {
        let started = Instant::now();
        let threads = device::set_threads(options.threads)?;
        let device = device::resolve(options.device)?;
        tracing::info!("device: {}, threads: {threads}, folder: `{}`", device::name(device), folder.path().display());
        device::set_switches(&experiment.recipe.train, device)?;
        let mut profile = Profile::start(device, options.profile);
        let mut stopwatch = profile.stopwatch();
        let mut prepared = prepare(experiment, device, threads, options)?;
        prepared.trainer.profiled = profile.wanted();
        start_files::warn_of_degenerate_settings(experiment, &prepared);
        start_files::write(experiment, &folder, &prepared)?;
        announce(&experiment.recipe, &prepared, options.progress);

        let found = checkpoint::latest(&folder.checkpoints())?;
        profile.count(Phase::Setup, &mut stopwatch);
        let mut tracker = Tracker::create(folder.path(), found.as_ref().map(|c| c.position.global_step))?;
        let resumed = match found {
            Some(checkpoint) => Some(resume(&mut prepared, checkpoint)?),
            None => None,
        };
        let is_new = resumed.is_none();
        let trainer = &prepared.trainer;
        let (epochs, steps) = (experiment.recipe.train.epochs, trainer.batches()?.len() as u64);
        let mut progress = Progress::new(options.progress, epochs, steps, trainer.epoch(), trainer.step() as u64);
        let carried = match resumed {
            Some(carried) => carried,
            None => {
                start_files::describe(experiment, &mut tracker)?;
                progress.activity("evaluating the untrained model");
                let (untrained, _) = evaluate(&prepared, &mut tracker, &mut profile, experiment, 0)?;
                progress.restart_clock();
                Carried { untrained, batches_hash: String::new(), seconds_before: 0.0 }
            }
        };
        let checkpoints = CheckpointWriter::new(folder.checkpoints(), options.checkpoint_every);
        let mut run = Self { experiment, folder, prepared, tracker, progress, started, profile, checkpoints, carried };
        if is_new {
            if run.prepared.trainer.components.weights.before_training() {
                run.update_weights(0, &mut LastEpoch::default())?;
            }
            run.checkpoint()?;
        }
        run.profile.end_epoch(false);
        Ok(run)
    }

    fn recipe(&self) -> &'a Recipe {
        &self.experiment.resolved.recipe
    }

    /// Trains to the end, or until a stop is requested, and writes the results.
    pub(super) fn finish_training(mut self, stop: &StopSignal) -> Result<RunOutcome> {
        let epochs = self.recipe().train.epochs;
        let mut last = LastEpoch::default();
        while self.prepared.trainer.epoch() < epochs {
            let batches = self.prepared.trainer.batches()?;
            let Self { prepared, tracker, progress, profile, .. } = &mut self;
            let end = prepared.trainer.run_epoch(&batches, stop, |report| {
                let mut stopwatch = profile.stopwatch();
                progress.advance(report.steps as u64, report.samples, Some(report.loss));
                observe::steps(tracker, report)?;
                profile.steps(report.steps, &report.times);
                profile.count(Phase::Tracking, &mut stopwatch);
                Ok(())
            })?;
            if end == EpochEnd::Stopped {
                self.checkpoint()?;
                self.checkpoints.finish()?;
                self.log_profile();
                self.progress.finish();
                return Err(Error::Interrupted(self.folder.path().into()));
            }
            last = self.end_epoch(&batches)?;
            // After the last epoch the result is written instead; a run killed in between repeats that epoch.
            if self.prepared.trainer.epoch() < epochs && self.checkpoints.is_due()? {
                self.checkpoint()?;
            }
            self.end_profiled_epoch()?;
        }
        self.write_results(last)
    }

    /// Writes the profile of an epoch, including its checkpoint.
    fn end_profiled_epoch(&mut self) -> Result<()> {
        let seconds = self.profile.end_epoch(true);
        if !self.profile.wanted() {
            return Ok(());
        }
        let scalars: Vec<_> = seconds.iter().map(|(split, s)| (format!("time/epoch/{}", split.name()), *s)).collect();
        let trainer = &self.prepared.trainer;
        self.tracker.scalars(&scalars, trainer.global_step(), trainer.epoch())
    }

    fn log_profile(&self) -> Option<ProfileSummary> {
        let summary = self.profile.summary();
        summary.iter().for_each(|summary| tracing::info!("{summary}"));
        summary
    }

    /// The weight update and the evaluation at the end of an epoch.
    fn end_epoch(&mut self, batches: &[Vec<i64>]) -> Result<LastEpoch> {
        let recipe = self.recipe();
        let trainer = &self.prepared.trainer;
        let (epoch, step) = (trainer.epoch() + 1, trainer.global_step());
        let mut last = LastEpoch { loss: trainer.mean_loss(), ..Default::default() };
        self.tracker.scalar("train/epoch_loss", last.loss, step, epoch)?;

        if !trainer.components.weights.is_uniform() {
            self.update_weights(epoch, &mut last)?;
        }
        if epoch.is_multiple_of(recipe.eval.every) || epoch == recipe.train.epochs {
            self.progress.activity("evaluating");
            let Self { prepared, tracker, profile, experiment, .. } = self;
            let (metrics, embeddings) = evaluate(prepared, tracker, profile, experiment, epoch)?;
            last.metrics = Some(metrics);
            last.test = Some(embeddings);
        }
        let recall_at_1 = last.metrics.as_ref().and_then(|metrics| metrics.recall.get(&1).copied());
        self.progress.epoch_done(&EpochSummary { loss: last.loss, recall_at_1 });
        let recall = recall_at_1.map(|recall| format!(", recall@1 {recall:.4}")).unwrap_or_default();
        tracing::info!("epoch {epoch}: loss {:.5}{recall}", last.loss);

        self.prepared.trainer.finish_epoch();
        self.carried.batches_hash = chained_hash(&self.carried.batches_hash, batches);
        Ok(last)
    }

    /// Asks the scheme for the weights of the next round.
    fn update_weights(&mut self, round: u64, last: &mut LastEpoch) -> Result<()> {
        self.progress.activity("updating the weights");
        let recipe = self.recipe();
        let mut stopwatch = self.profile.stopwatch();
        let Prepared { trainer, training, .. } = &mut self.prepared;
        trainer.read_weights()?;
        let (components, step) = (&trainer.components, trainer.global_step());
        let ema = trainer.ema.as_ref().filter(|_| components.weights.needs_ema());
        let ema_embeddings = ema.map(|ema| embed_training(trainer, &ema.model)).transpose()?;
        let wanted = components.weights.needs_embeddings();
        let embeddings = wanted.then(|| embed_training(trainer, &trainer.model)).transpose()?;
        let known = Known {
            embeddings: embeddings.as_ref(),
            ema_embeddings: ema_embeddings.as_ref(),
            flipped: (!matches!(recipe.noise, NoiseRecipe::None)).then_some(&training.flipped),
        };
        let Trainer { data, weights, columns, .. } = &*trainer;
        let update = weighting::update(recipe, components, &known, &data.labels, weights, columns, round)?;
        last.weighting = update.scalars;
        let report = NoiseReport::new(&update.weights, &training.flipped);
        if let Some(warning) = report.worse_than_chance().filter(|_| round == recipe.train.epochs) {
            tracing::warn!("{warning}");
        }
        last.weighting.extend(report.scalars().into_iter().map(|(name, value)| (name.to_string(), value)));
        last.columns = update.columns;
        last.training = embeddings;
        self.profile.count(Phase::Weighting, &mut stopwatch);
        let shown = Weighted { split: &training.split, flipped: &training.flipped };
        let tracker = &mut self.tracker;
        observe::weighting(tracker, &recipe.track, &last.weighting, &update.weights, &shown, step, round)?;
        trainer.weights.set(update.weights);
        self.profile.count(Phase::Tracking, &mut stopwatch);
        Ok(())
    }

    /// Copies everything to the host and begins to write a checkpoint. Waits for the one before.
    fn checkpoint(&mut self) -> Result<()> {
        let mut stopwatch = self.profile.stopwatch();
        self.checkpoints.finish()?;
        self.tracker.flush()?;
        let trainer = &mut self.prepared.trainer;
        trainer.read_weights()?;
        let TrainerPosition { epoch, step, global_step, meter } = trainer.position();
        let position = Position {
            epoch,
            step,
            global_step,
            meter,
            batches_hash: self.carried.batches_hash.clone(),
            untrained: self.carried.untrained.clone(),
            seconds: self.carried.seconds_before + self.started.elapsed().as_secs_f64(),
        };
        self.checkpoints.begin(position, HostTensors::gather(&trainer.snapshot())?)?;
        self.profile.count(Phase::Checkpoint, &mut stopwatch);
        Ok(())
    }

    /// Writes the files of a trained run. `result.json` comes last, since it marks the run as finished.
    fn write_results(mut self, last: LastEpoch) -> Result<RunOutcome> {
        let recipe = self.recipe();
        let mut stopwatch = self.profile.stopwatch();
        let trainer = &self.prepared.trainer;
        log_skipped_steps(trainer);
        if let Err(error) = self.checkpoints.finish() {
            // The result, which comes next, needs no checkpoint.
            tracing::warn!("the last checkpoint was not written: {error}");
        }
        let is_kept = |name: &str| !name.starts_with("optimizer.") && !name.starts_with("sample_columns.");
        let model: Vec<_> = trainer.snapshot().into_iter().filter(|(name, _)| is_kept(name)).collect();
        let model = tensor_file::to_bytes(&model, None)?;
        files::write(&self.folder.model(), &model)?;
        let embeddings = last.training.map_or_else(|| embed_training(trainer, &trainer.model), Ok)?;
        let weights = trainer.weights.values();
        let table = self.folder.samples();
        let mut columns = last.columns;
        columns.extend(trainer.columns.read());
        samples::write(&table, &self.prepared.training, weights, &columns, &embeddings)?;
        if recipe.track.projector {
            self.write_projector(last.test)?;
        }
        self.profile.count(Phase::Tracking, &mut stopwatch);
        let profile = self.log_profile();
        let seconds = self.carried.seconds_before + self.started.elapsed().as_secs_f64();
        let (steps, epochs) = (trainer.global_step(), recipe.train.epochs);
        self.tracker.scalar("time/run_seconds", seconds, steps, epochs)?;
        self.tracker.finish()?;
        self.progress.finish();
        let result = RunResult {
            format: FORMAT,
            name: recipe.name.clone(),
            recipe_hash: self.experiment.hash(),
            method: recipe.method.clone(),
            case: recipe.case.clone(),
            seed: recipe.seed,
            loss: recipe.loss.name.clone(),
            weights: recipe.weights.name.clone(),
            epochs,
            steps,
            trained: last.metrics.unwrap_or_else(|| self.carried.untrained.clone()),
            untrained: self.carried.untrained,
            final_loss: last.loss,
            weighting: last.weighting,
            conditions: self.prepared.manifest.conditions,
            batches: self.carried.batches_hash,
            seconds,
            model_blake3: blake3::hash(&model).to_hex().to_string(),
        };
        files::write_json(&self.folder.result(), &result)?;
        let checkpoints = self.folder.checkpoints();
        std::fs::remove_dir_all(&checkpoints).map_err(Error::file("remove", &checkpoints))?;
        Ok(RunOutcome { folder: self.folder.path().into(), result, skipped: false, profile })
    }

    fn write_projector(&self, embeddings: Option<Tensor>) -> Result<()> {
        let Prepared { trainer, test, .. } = &self.prepared;
        let embeddings = embeddings.map_or_else(|| embed_test(&self.prepared, self.recipe().eval.batch_size), Ok)?;
        let classes: Vec<_> = test.labels.iter().map(|&label| test.class_names[label as usize].clone()).collect();
        let columns: [(&str, &[String]); 2] = [("class", &classes), ("path", &test.paths)];
        let on = match self.recipe().eval.on {
            EvalOn::Test => "test",
            EvalOn::Validation => "validation",
        };
        let name = format!("{on} embeddings after epoch {}", trainer.epoch());
        let points = Points { name: &name, embeddings: &embeddings, columns: &columns, inputs: Some(&test.inputs) };
        projector::write(self.folder.path(), &points, projector::DEFAULT_LIMIT)?;
        Ok(())
    }
}

/// Restores the trainer from a checkpoint.
fn resume(prepared: &mut Prepared, checkpoint: Checkpoint) -> Result<Carried> {
    let Checkpoint { position, tensors } = checkpoint;
    let Position { epoch, step, global_step, meter, batches_hash, untrained, seconds } = position;
    prepared.trainer.resume(TrainerPosition { epoch, step, global_step, meter }, &tensors)?;
    tracing::info!("resumed in epoch {} after step {global_step}", epoch + 1);
    Ok(Carried { untrained, batches_hash, seconds_before: seconds })
}

/// Logs how many steps were skipped because gradients overflowed, if loss scaling is used.
fn log_skipped_steps(trainer: &Trainer) {
    if let Some(scale) = &trainer.loss_scale {
        let (skipped, steps) = (scale.skipped().double_value(&[]), trainer.global_step());
        tracing::info!("f16: {skipped} of {steps} steps were skipped because gradients overflowed");
    }
}

/// Hash of all batches so far: two runs with the same hash were trained on the same sequence.
fn chained_hash(before: &str, batches: &[Vec<i64>]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes());
    for batch in batches {
        hasher.update(&(batch.len() as u64).to_le_bytes());
        batch.iter().for_each(|id| {
            hasher.update(&id.to_le_bytes());
        });
    }
    hasher.finalize().to_hex().to_string()
}
