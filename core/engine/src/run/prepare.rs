//! Prepares a run: loads the data, applies label noise, builds the model and the trainer.

use super::options::RunOptions;
use crate::backbone::{Compute, Model};
use crate::data::noise::{self, NoisyLabels, NoisySplit};
use crate::data::{self, Inputs, Layout, Split, validation};
use crate::device::memory;
use crate::experiment::Experiment;
use crate::progress::Bar;
use crate::tensor_file;
use crate::train::components::Components;
use crate::train::{Ema, Trainer, TrainingSet};
use crate::{Error, Result, caught, device};
use curricle_recipe::{EvalOn, EvalRecipe, Recipe};
use curricle_record::{Conditions, FORMAT, Manifest, PluginHash};
use curricle_sdk::{Shape, guard};
use std::time::Instant;
use tch::{Device, Tensor};

/// A run before its first step.
pub(super) struct Prepared<'a> {
    pub trainer: Trainer<'a>,
    /// The training samples with the labels they are trained with.
    pub training: NoisySplit,
    /// The noisy labels of all training samples, including removed ones.
    pub noise: NoisyLabels,
    /// The training samples with their original labels.
    pub original: Split,
    /// The samples to evaluate on, on the training device.
    pub test: Split,
    /// The model's inputs for them: the samples themselves, or the features of a frozen backbone.
    pub test_inputs: Inputs,
    /// Mask of the test samples used as queries; `None` if all are.
    pub query: Option<Vec<bool>>,
    pub manifest: Manifest,
}

pub(super) fn prepare<'a>(
    experiment: &'a Experiment,
    device: Device,
    threads: usize,
    options: &RunOptions,
) -> Result<Prepared<'a>> {
    let recipe = &experiment.resolved.recipe;
    let dataset = data::load_cached(&recipe.data, &recipe.images, options.image_cache.as_deref(), options.progress)?;
    let initial = |seed| embed_initially(recipe, &dataset.train.inputs, seed, device);
    let noise = noise::apply(&recipe.noise, &dataset.train, recipe.seed, initial)?;
    let removed = noise::removes_flipped(&recipe.noise);
    let training = noise.training_set(&dataset.train, removed)?;
    let (training, mut test, query) = match recipe.eval.on {
        EvalOn::Test => (training, dataset.test, dataset.query),
        EvalOn::Validation => {
            let (training, validation) = validation::hold_out(&training, &recipe.eval)?;
            (training, validation, None)
        }
    };

    let shape = Shape {
        classes: training.split.class_names.len() as i64,
        samples: training.split.len() as i64,
        embedding: recipe.embedding.size,
    };
    let layout = training.split.inputs.layout();
    let model = caught("building the network", || {
        Model::build(&recipe.backbone, &recipe.embedding, layout, recipe.seed, device)
    });
    let mut model = model.map_err(|error| {
        memory::explain(error, device, || memory::Need {
            what: format!("`{}` with an embedding of {}", recipe.backbone.name(), recipe.embedding.size),
            remedy: "use a smaller network".into(),
        })
    })?;
    if let Some(weights) = model.weights() {
        tracing::info!("{}", weights.sentence());
        if weights.left_over_inside > 0 {
            let (count, network) = (weights.left_over_inside, recipe.backbone.name());
            let file = weights.path.display();
            tracing::warn!("`{file}` has more tensors than `{network}` ({count} unused); is it for a larger network?");
        }
    }
    if let Some(normalise) = model.backbone().normalise() {
        let pixels = serde_json::to_string(normalise).unwrap_or_default();
        tracing::info!("pixel normalisation for `{}`: {pixels}", recipe.backbone.name());
    }
    let initial: Vec<_> = model.tensors().into_iter().map(|named| (named.name, named.tensor)).collect();
    let conditions = Conditions {
        data: dataset.hash,
        labels: labels_identity(&noise, removed, &recipe.eval),
        initialisation: blake3::hash(&tensor_file::to_bytes(&initial, None)?).to_hex().to_string(),
    };
    let compute = Compute::choose(&recipe.train, layout, device)?;
    tracing::info!("the network computes in {compute}");
    if let Some(advice) = compute.advice(layout, device)? {
        tracing::info!("{advice}");
    }
    model.set_compute(compute);
    let moved = |what| move |source| Error::Torch { during: what, source };
    let components = Components::new(recipe, &experiment.method, &shape, device)?;
    let mut set = guard(|| Ok(TrainingSet::new(&training.split, device))).map_err(moved("moving the training set"))?;
    test.inputs = guard(|| Ok(test.inputs.to_device(device))).map_err(moved("moving the test set"))?;
    let mut test_inputs = test.inputs.share();
    if recipe.backbone.frozen() {
        model.freeze();
        let started = Instant::now();
        let features = |inputs: &Inputs| {
            let bar = Bar::new(options.progress, "computing features", inputs.len() as u64);
            let mut before = 0;
            model.precompute(inputs, recipe.eval.batch_size, |done, _| {
                bar.advance_by((done - before) as u64);
                before = done;
            })
        };
        // Without a split, both sets are the same files.
        let same = set.inputs.same_files(&test_inputs);
        set.inputs = features(&set.inputs)?;
        test_inputs = if same { set.inputs.share() } else { features(&test_inputs)? };
        tracing::info!(
            "the backbone is frozen: computed the features of {} training and {} test samples in {:.1} s, without \
             augmentation; only the embedding layer and the loss's tensors are trained",
            training.split.len(),
            test.len(),
            started.elapsed().as_secs_f64()
        );
    }
    let manifest = Manifest {
        format: FORMAT,
        curricle: env!("CARGO_PKG_VERSION").into(),
        libtorch: device::libtorch::version().unwrap_or_else(|| device::libtorch::REQUIRED.into()),
        recipe_hash: experiment.hash(),
        seed: recipe.seed,
        device: device::name(device),
        threads,
        plugins: recipe
            .plugins
            .paths
            .iter()
            .map(|p| PluginHash { path: p.path.clone(), sha256: p.sha256.clone() })
            .collect(),
        recipe_hash_without_plugins: experiment.hash_without_plugins(),
        backbone: serde_json::to_value(model.backbone()).ok(),
        weights: model.weights().cloned(),
        conditions,
        skipped_files: dataset.skipped,
    };
    let ema = recipe.train.ema.map(|decay| average(recipe, &model, layout, compute, decay)).transpose()?;
    let mut trainer = Trainer::new(recipe, set, model, components)?;
    trainer.ema = ema;
    Ok(Prepared { trainer, training, noise, original: dataset.train, test, test_inputs, query, manifest })
}

/// Embeddings by the initial network with a seed, which need not be the run's. In f32 whatever the precision of
/// training, so that the noise does not depend on it.
fn embed_initially(recipe: &Recipe, inputs: &Inputs, seed: u64, device: Device) -> Result<Tensor> {
    let layout = inputs.layout();
    let mut model = caught("building the network for `noise`", || {
        Model::build(&recipe.backbone, &recipe.embedding, layout, seed, device)
    })?;
    model.set_compute(Compute::exact(layout, device));
    let moved = |source| Error::Torch { during: "moving the training set", source };
    let inputs = guard(|| Ok(inputs.to_device(device))).map_err(moved)?;
    model.embed(&inputs, recipe.eval.batch_size)
}

/// The moving average of a network, before the first step.
fn average(recipe: &Recipe, model: &Model, layout: Layout, compute: Compute, decay: f64) -> Result<Ema> {
    let tensors = model.tensors().into_iter().map(|named| (named.name, named.tensor)).collect();
    let mut copy = caught("building the network's moving average", || {
        Model::restore(model.backbone(), &recipe.embedding, layout, &tensors, model.device())
    })?;
    copy.set_compute(compute);
    Ok(Ema::new(copy, model, decay))
}

/// Identifies the labels and the split that the run uses, beyond the data set itself.
fn labels_identity(noise: &NoisyLabels, removed: bool, eval: &EvalRecipe) -> String {
    let removed = if removed { "-without-flipped" } else { "" };
    let hold_out = match eval.on {
        EvalOn::Test => String::new(),
        EvalOn::Validation => format!("-validation-{}", eval.validation_share),
    };
    format!("{}{removed}{hold_out}", noise.hash)
}
