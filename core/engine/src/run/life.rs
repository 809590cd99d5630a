//! The life of a run: prepare, train, weigh, evaluate, write down.

use super::checkpoint::{self, Position};
use super::manifest::{FORMAT, Manifest, RunResult};
use super::observe::{self, Weighted};
use super::prepare::{Prepared, prepare};
use super::{RunFolder, plugins, samples};
use crate::data::{Inputs, noise};
use crate::device::{self, DeviceChoice};
use crate::eval::{self, ClusterOptions, EvalInput, EvalOptions, Metrics};
use crate::files;
use crate::recipe::{ClusterWhen, EvalOn, Recipe, Resolved, advice};
use crate::track::projector::{self, Points};
use crate::track::{EpochSummary, HParams, Progress, ProgressMode, Status, Tracker, logging};
use crate::train::meter::Meter;
use crate::train::noise_report::NoiseReport;
use crate::train::stop::Stop;
use crate::train::{EpochEnd, weighting};
use crate::{Error, Result};
use curricle_sdk::{DataFacts, guard};
use std::path::PathBuf;
use std::time::Instant;
use tch::Tensor;

/// Where and how a recipe is run, as opposed to what it computes.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The folder that holds all runs.
    pub out: PathBuf,
    /// Where to train.
    pub device: DeviceChoice,
    /// Threads of libtorch; all physical cores by default.
    pub threads: Option<usize>,
    /// Begin anew even if the run is finished or half done.
    pub force: bool,
    /// How progress is shown.
    pub progress: ProgressMode,
}

/// The file that says why a run failed; the next attempt removes it.
pub const FAILURE: &str = "error.txt";

/// How a run ended that did not fail.
#[derive(Debug)]
pub struct Outcome {
    /// Its folder.
    pub folder: PathBuf,
    /// What it came to.
    pub result: RunResult,
    /// Whether it had been finished before and nothing was done.
    pub skipped: bool,
}

/// Runs a recipe from wherever it stands to its end.
pub fn execute(resolved: &Resolved, options: &RunOptions, stop: &Stop) -> Result<Outcome> {
    let recipe = &resolved.recipe;
    let path = RunFolder::path_for(&options.out, &recipe.name, &resolved.hash(), recipe.seed);
    if !options.force {
        plugins::refuse_if_changed(resolved, &options.out, &path)?;
    }
    let folder = RunFolder::open(path)?;
    if options.force {
        folder.clear()?;
    } else if let Some(result) = files::read_json(&folder.file("result.json"))? {
        return Ok(Outcome { folder: folder.path().into(), result, skipped: true });
    }
    let _log = logging::attach_file(&folder.file("log.txt"))?;
    let failure = folder.file(FAILURE);
    if failure.exists() {
        std::fs::remove_file(&failure).map_err(Error::file("remove", &failure))?;
    }
    let run = Run::begin(resolved, options, folder);
    let outcome = run.and_then(|run| run.finish_training(stop)).map_err(|error| resolved.blame(error));
    if let Err(error) = &outcome {
        tracing::error!("{error}");
        if !matches!(error, Error::Interrupted(_)) {
            // Only for whoever looks at the folder; the error itself is what the caller gets.
            let _ = files::write(&failure, format!("{error}\n").as_bytes());
        }
    }
    outcome
}

struct Run<'a> {
    resolved: &'a Resolved,
    folder: RunFolder,
    prepared: Prepared<'a>,
    tracker: Tracker,
    progress: Progress,
    started: Instant,
    /// What a checkpoint holds besides the trainer.
    memory: Memory,
}

/// What has to be remembered until the end of the run.
struct Memory {
    untrained: Metrics,
    batches_hash: String,
    /// Seconds of earlier processes that worked on this run.
    seconds_before: f64,
}

/// What the last epoch left behind.
#[derive(Default)]
struct LastEpoch {
    metrics: Option<Metrics>,
    loss: f64,
    weighting: Vec<(String, f64)>,
    columns: Vec<(String, Vec<f64>)>,
}

impl<'a> Run<'a> {
    /// Prepares the run and goes back to its last checkpoint, if it has one.
    fn begin(resolved: &'a Resolved, options: &RunOptions, folder: RunFolder) -> Result<Self> {
        let started = Instant::now();
        let threads = device::set_threads(options.threads)?;
        let device = device::resolve(options.device)?;
        tracing::info!("device {}, {threads} threads, folder `{}`", device::name(device), folder.path().display());
        let mut prepared = prepare(resolved, device, threads)?;
        warn_of_degenerate_settings(resolved, &prepared);
        write_front_matter(resolved, &folder, &prepared)?;

        let found = checkpoint::latest(&folder.file("checkpoints"))?;
        let mut tracker = Tracker::create(folder.path(), found.as_ref().map(|c| c.position.global_step))?;
        let memory = match found {
            Some(checkpoint) => {
                let position = checkpoint.position;
                prepared.trainer.restore(&checkpoint.tensors, position.global_step)?;
                prepared.trainer.epoch = position.epoch;
                prepared.trainer.step = position.step;
                prepared.trainer.meter = Meter::restore(position.meter);
                tracing::info!("resumed in epoch {} after step {}", position.epoch + 1, position.global_step);
                Memory {
                    untrained: position.untrained,
                    batches_hash: position.batches_hash,
                    seconds_before: position.seconds,
                }
            }
            None => {
                describe(resolved, &mut tracker)?;
                let untrained = evaluate(&prepared, &mut tracker, resolved, 0)?;
                Memory { untrained, batches_hash: String::new(), seconds_before: 0.0 }
            }
        };
        let trainer = &prepared.trainer;
        let steps = trainer.batches()?.len() as u64;
        let progress = Progress::new(options.progress, resolved.recipe.train.epochs, steps, trainer.epoch);
        let mut run = Self { resolved, folder, prepared, tracker, progress, started, memory };
        if run.prepared.trainer.optimizer.steps() == 0 {
            run.checkpoint()?;
        }
        Ok(run)
    }

    fn recipe(&self) -> &'a Recipe {
        &self.resolved.recipe
    }

    fn finish_training(mut self, stop: &Stop) -> Result<Outcome> {
        let epochs = self.recipe().train.epochs;
        let mut last = LastEpoch::default();
        while self.prepared.trainer.epoch < epochs {
            let batches = self.prepared.trainer.batches()?;
            let (tracker, progress) = (&mut self.tracker, &mut self.progress);
            let end = self.prepared.trainer.run_epoch(&batches, stop, |report| {
                progress.advance(report.steps as u64, report.samples, Some(report.loss));
                observe::steps(tracker, report)
            })?;
            if end == EpochEnd::Stopped {
                self.checkpoint()?;
                self.tracker.finish(Status::Interrupted)?;
                self.progress.finish();
                return Err(Error::Interrupted(self.folder.path().into()));
            }
            last = self.end_epoch(&batches)?;
            // The last epoch ends with the result instead: whoever is killed in between repeats it.
            if self.prepared.trainer.epoch < epochs {
                self.checkpoint()?;
            }
        }
        self.write_results(last)
    }

    /// The weight update and the evaluation at the end of an epoch.
    fn end_epoch(&mut self, batches: &[Vec<i64>]) -> Result<LastEpoch> {
        let recipe = self.recipe();
        let trainer = &mut self.prepared.trainer;
        let (epoch, step) = (trainer.epoch + 1, trainer.optimizer.steps());
        let mut last = LastEpoch { loss: trainer.meter.epoch_mean(), ..Default::default() };
        self.tracker.scalar("train/epoch_loss", last.loss, step, epoch)?;

        if !trainer.components.weights.is_uniform() {
            let embeddings =
                if trainer.components.weights.needs_embeddings() { Some(embed_training(trainer)?) } else { None };
            let update = weighting::update(
                recipe,
                &trainer.components,
                embeddings.as_ref(),
                &trainer.data.labels,
                &trainer.weights,
                epoch,
            )?;
            last.weighting = update.scalars;
            let report = NoiseReport::new(&update.weights, &self.prepared.training.flipped);
            last.weighting.extend(report.scalars().into_iter().map(|(name, value)| (name.to_string(), value)));
            last.columns = update.columns;
            let shown = Weighted { part: &self.prepared.training.part, flipped: &self.prepared.training.flipped };
            let tracker = &mut self.tracker;
            observe::weighting(tracker, &recipe.track, &last.weighting, &update.weights, &shown, step, epoch)?;
            trainer.weights.set(update.weights);
        }
        if epoch.is_multiple_of(recipe.eval.every) || epoch == recipe.train.epochs {
            last.metrics = Some(evaluate(&self.prepared, &mut self.tracker, self.resolved, epoch)?);
        }
        let recall_at_1 = last.metrics.as_ref().and_then(|metrics| metrics.recall.get(&1).copied());
        self.progress.epoch_done(&EpochSummary { loss: last.loss, recall_at_1 });
        tracing::info!("epoch {epoch}: loss {:.5}, recall@1 {recall_at_1:?}", last.loss);

        let trainer = &mut self.prepared.trainer;
        trainer.epoch += 1;
        trainer.step = 0;
        trainer.meter = Meter::default();
        self.memory.batches_hash = chained_hash(&self.memory.batches_hash, batches);
        Ok(last)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.tracker.flush()?;
        let trainer = &mut self.prepared.trainer;
        let position = Position {
            epoch: trainer.epoch,
            step: trainer.step,
            global_step: trainer.optimizer.steps(),
            meter: trainer.meter.save(),
            batches_hash: self.memory.batches_hash.clone(),
            untrained: self.memory.untrained.clone(),
            seconds: self.memory.seconds_before + self.started.elapsed().as_secs_f64(),
        };
        checkpoint::save(&self.folder.file("checkpoints"), &position, &trainer.snapshot())
    }

    /// Writes what is left when training is over. The result comes last: it says that the run is
    /// finished.
    fn write_results(mut self, last: LastEpoch) -> Result<Outcome> {
        let recipe = self.recipe();
        let trainer = &self.prepared.trainer;
        let model: Vec<_> =
            trainer.snapshot().into_iter().filter(|(name, _)| !name.starts_with("optimizer.")).collect();
        files::write(&self.folder.file("model.safetensors"), &checkpoint::to_safetensors(&model)?)?;
        let embeddings = embed_training(trainer)?;
        let weights = trainer.weights.values();
        let table = self.folder.file("samples.csv");
        samples::write(&table, &self.prepared.training, weights, &last.columns, &embeddings)?;
        if recipe.track.projector {
            self.write_projector()?;
        }
        let seconds = self.memory.seconds_before + self.started.elapsed().as_secs_f64();
        let (steps, epochs) = (trainer.optimizer.steps(), recipe.train.epochs);
        self.tracker.scalar("time/run_seconds", seconds, steps, epochs)?;
        self.tracker.finish(Status::Success)?;
        self.progress.finish();
        let result = RunResult {
            format: FORMAT,
            name: recipe.name.clone(),
            recipe_hash: self.resolved.hash(),
            method: recipe.method.clone(),
            case: recipe.case.clone(),
            seed: recipe.seed,
            loss: recipe.loss.name.clone(),
            weights: recipe.weights.name.clone(),
            epochs,
            steps,
            trained: last.metrics.unwrap_or_else(|| self.memory.untrained.clone()),
            untrained: self.memory.untrained,
            final_loss: last.loss,
            weighting: last.weighting,
            conditions: self.prepared.manifest.conditions,
            batches: self.memory.batches_hash,
            seconds,
        };
        files::write_json(&self.folder.file("result.json"), &result)?;
        let checkpoints = self.folder.file("checkpoints");
        std::fs::remove_dir_all(&checkpoints).map_err(Error::file("remove", &checkpoints))?;
        Ok(Outcome { folder: self.folder.path().into(), result, skipped: false })
    }

    fn write_projector(&self) -> Result<()> {
        let Prepared { trainer, test, .. } = &self.prepared;
        let embeddings = embed(&self.prepared, self.recipe().eval.batch_size)?;
        let classes: Vec<_> = test.labels.iter().map(|&label| test.class_names[label as usize].clone()).collect();
        let images = match &test.inputs {
            Inputs::Images(images) => Some(images),
            Inputs::Features(_) => None,
        };
        let columns: [(&str, &[String]); 2] = [("class", &classes), ("path", &test.paths)];
        let on = match self.recipe().eval.on {
            EvalOn::Test => "test",
            EvalOn::Validation => "validation",
        };
        let name = format!("{on} embeddings after epoch {}", trainer.epoch);
        let points = Points { name: &name, embeddings: &embeddings, columns: &columns, images };
        projector::write(self.folder.path(), &points, projector::DEFAULT_LIMIT)?;
        Ok(())
    }
}

/// Warns of settings that will disappoint on the data as it really is.
fn warn_of_degenerate_settings(resolved: &Resolved, prepared: &Prepared) {
    let facts = DataFacts {
        class_sizes: &prepared.training.part.class_sizes(),
        embedding_size: usize::try_from(resolved.recipe.embedding.size).unwrap_or(0),
        batch_size: prepared.trainer.components.sampler.batch_size(),
    };
    for warning in advice(resolved, Some(&facts)) {
        tracing::warn!("{warning}");
    }
}

/// The resolved recipe, the manifest and the labels; or a refusal to go on with another's run.
fn write_front_matter(resolved: &Resolved, folder: &RunFolder, prepared: &Prepared) -> Result<()> {
    let path = folder.file("manifest.json");
    match files::read_json::<Manifest>(&path)? {
        Some(begun) => {
            prepared.manifest.check_resumable(&begun, folder.path())?;
            if begun.threads != prepared.manifest.threads {
                let (before, now) = (begun.threads, prepared.manifest.threads);
                tracing::warn!(
                    "the run was begun with {before} threads and goes on with {now}; the last bits may differ"
                );
            }
        }
        None => {
            files::write(&folder.file("recipe.toml"), resolved.to_toml().as_bytes())?;
            noise::save(&folder.file("labels.csv"), &prepared.original, &prepared.noise)?;
            files::write_json(&path, &prepared.manifest)?;
        }
    }
    Ok(())
}

/// The recipe as text and as hyperparameters.
fn describe(resolved: &Resolved, tracker: &mut Tracker) -> Result<()> {
    tracker.text("recipe", &format!("```toml\n{}\n```", resolved.to_toml()), 0);
    let settings = serde_json::to_value(&resolved.recipe).map_err(|e| Error::Failed(e.to_string()))?;
    let hparams = HParams::from_settings(resolved.hash(), &settings)
        .without("seed")
        .without("description")
        .without("method")
        .without("case");
    tracker.hparams(&hparams)
}

/// Evaluates the model on the test or validation classes after `epoch` epochs.
fn evaluate(prepared: &Prepared, tracker: &mut Tracker, resolved: &Resolved, epoch: u64) -> Result<Metrics> {
    let recipe = &resolved.recipe;
    let ends = epoch == 0 || epoch == recipe.train.epochs;
    let cluster = match recipe.eval.cluster {
        ClusterWhen::Always => true,
        ClusterWhen::Ends => ends,
        ClusterWhen::Never => false,
    };
    let options = EvalOptions {
        recall_at: recipe.eval.recall_at.clone(),
        cluster: cluster.then_some(ClusterOptions { restarts: recipe.eval.restarts, seed: recipe.seed }),
    };
    let started = Instant::now();
    let embeddings = embed(prepared, recipe.eval.batch_size)?;
    let test = &prepared.test;
    let metrics = eval::evaluate(&EvalInput { embeddings: &embeddings, labels: &test.labels, query: None }, &options)?;
    let step = prepared.trainer.optimizer.steps();
    observe::evaluation(tracker, &recipe.track, &metrics, &embeddings, test, step, epoch)?;
    tracker.scalar("time/evaluation_seconds", started.elapsed().as_secs_f64(), step, epoch)?;
    Ok(metrics)
}

fn embed(prepared: &Prepared, batch_size: i64) -> Result<Tensor> {
    let (model, test) = (&prepared.trainer.model, &prepared.test);
    guard(|| Ok(model.embed(&test.inputs, test.len() as i64, batch_size)))
        .map_err(|source| Error::Torch { during: "computing test embeddings", source })
}

fn embed_training(trainer: &crate::train::Trainer) -> Result<Tensor> {
    let (data, batch_size) = (&trainer.data, trainer.recipe.eval.batch_size);
    guard(|| Ok(trainer.model.embed(&data.inputs, data.labels.len() as i64, batch_size)))
        .map_err(|source| Error::Torch { during: "computing training embeddings", source })
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
