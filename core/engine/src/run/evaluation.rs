//! Computes embeddings and evaluates the model of a run.

use super::observe;
use super::prepare::Prepared;
use crate::backbone::{self, Model};
use crate::device::memory;
use crate::track::{Phase, Profile, Tracker};
use crate::train::Trainer;
use crate::{Error, Result};
use curricle_eval::{self as eval, ClusterOptions, EvalInput, EvalOptions};
use curricle_recipe::{ClusterWhen, EvalNetwork, Resolved};
use curricle_record::Metrics;
use std::time::Instant;
use tch::Tensor;

/// Evaluates the model on the test or validation set after `epoch` epochs; also returns the embeddings.
pub(super) fn evaluate(
    prepared: &Prepared,
    tracker: &mut Tracker,
    profile: &mut Profile,
    resolved: &Resolved,
    epoch: u64,
) -> Result<(Metrics, Tensor)> {
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
    let mut stopwatch = profile.stopwatch();
    let embeddings = embed_test(prepared, recipe.eval.batch_size)?;
    let test = &prepared.test;
    let metrics = eval::evaluate(
        &EvalInput { embeddings: &embeddings, labels: &test.labels, query: prepared.query.as_deref() },
        &options,
    )?;
    profile.count(Phase::Evaluation, &mut stopwatch);
    let step = prepared.trainer.global_step();
    observe::evaluation(tracker, &recipe.track, &metrics, &embeddings, prepared, step, epoch)?;
    tracker.scalar("time/evaluation_seconds", started.elapsed().as_secs_f64(), step, epoch)?;
    profile.count(Phase::Tracking, &mut stopwatch);
    Ok((metrics, embeddings))
}

/// Embeddings of the test or validation samples.
pub(super) fn embed_test(prepared: &Prepared, batch_size: Option<i64>) -> Result<Tensor> {
    let trainer = &prepared.trainer;
    let model = match (trainer.recipe.eval.network, &trainer.ema) {
        (EvalNetwork::Ema, Some(ema)) => &ema.model,
        _ => &trainer.model,
    };
    let embedded = model.embed(&prepared.test_inputs, batch_size);
    embedded.map_err(|e| explain_memory(e, &prepared.trainer))
}

/// Embeddings of the training samples by the network or its moving average, without augmentation.
pub(super) fn embed_training(trainer: &Trainer, model: &Model) -> Result<Tensor> {
    let embedded = model.embed(&trainer.data.inputs, trainer.recipe.eval.batch_size);
    embedded.map_err(|e| explain_memory(e, trainer))
}

/// Adds a remedy to an out-of-memory error while computing embeddings.
fn explain_memory(error: Error, trainer: &Trainer) -> Error {
    memory::explain(error, trainer.model.device(), || {
        let (layout, device) = (trainer.data.inputs.layout(), trainer.model.device());
        let batch = trainer.recipe.eval.batch_size.unwrap_or_else(|| backbone::embedding_batch(layout, device));
        memory::Need {
            what: format!("embedding {batch} samples of {layout} at a time in {}", trainer.recipe.train.precision),
            remedy: format!(
                "try a smaller `eval.batch_size`, e.g. {}; the last checkpoint is kept",
                (batch / 2).max(1)
            ),
        }
    })
}
