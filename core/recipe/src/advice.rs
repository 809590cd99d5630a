//! Warnings about settings that are valid but will not do what the user expects.

use crate::catalogue::Written;
use crate::problems::Problem;
use crate::settings::{BackboneRecipe, DataRecipe, NoiseRecipe, OptimizerRecipe, ScheduleRecipe};

/// Warnings that depend on the recipe alone.
pub(crate) fn advice(written: Written) -> Vec<Problem> {
    let recipe = written.recipe;
    let mut found = Vec::new();
    let mut note = |path: &str, message: &str| found.push(written.warning(path, message));
    let (OptimizerRecipe::Sgd { lr, .. }
    | OptimizerRecipe::Adam { lr, .. }
    | OptimizerRecipe::Adamw { lr, .. }
    | OptimizerRecipe::Rmsprop { lr, .. }) = &recipe.optimizer;
    if *lr == 0.0 {
        note("optimizer.lr", "no parameter is updated; use a learning rate above 0");
    }
    if let OptimizerRecipe::Sgd { momentum, nesterov, .. } = &recipe.optimizer {
        if *momentum == 1.0 {
            note("optimizer.momentum", "past gradients never decay and training diverges; 0.9 is usual");
        }
        if *nesterov && *momentum == 0.0 {
            note("optimizer.nesterov", "has no effect without `optimizer.momentum`");
        }
    }
    let epochs = recipe.train.epochs;
    if epochs == 0 {
        note("train.epochs", "nothing is trained; only the untrained model is evaluated");
    } else if recipe.train.warmup_epochs >= epochs as f64 {
        note(
            "train.warmup_epochs",
            "the warm-up lasts as long as training, so the full learning rate is never reached",
        );
    }
    let (backbone, head) = (&recipe.backbone, recipe.train.head_epochs);
    let frozen_norm = backbone.vision().is_some_and(|vision| vision.frozen_norm);
    let random = backbone.weights().is_none() && backbone.torchscript().is_none();
    if backbone.frozen() && random {
        note("backbone.frozen", "the backbone stays randomly initialised; set `backbone.weights`");
    } else if frozen_norm && random {
        note("backbone.frozen_norm", "batch norm keeps its initial statistics; set `backbone.weights`");
    }
    if backbone.frozen() && head > 0 {
        note("train.head_epochs", "has no effect: with `backbone.frozen`, only the head is trained");
    } else if backbone.takes_colour_images() && head > 0 && head >= epochs {
        note("train.head_epochs", "the backbone is never trained; `backbone.frozen = true` does the same faster");
    }
    if let Some(vit) = backbone.vit().filter(|vit| vit.frozen) {
        let without_effect = "has no effect: with `backbone.frozen`, the backbone is not trained";
        if vit.drop_path > 0.0 {
            note("backbone.drop_path", without_effect);
        }
        if vit.layer_decay < 1.0 {
            note("backbone.layer_decay", without_effect);
        }
        if vit.checkpointing {
            note("backbone.checkpointing", without_effect);
        }
    }
    let norms = matches!(backbone, BackboneRecipe::Conv4 { .. })
        || (backbone.vision().is_some() && !matches!(backbone, BackboneRecipe::Squeezenet11(_)));
    if recipe.train.micro_batch.is_some() && norms && !frozen_norm && !backbone.frozen() {
        note(
            "train.micro_batch",
            "batch norm computes its statistics from each micro-batch, so results differ from those of whole batches; \
             with `backbone.frozen_norm = true` or a network without batch norm they do not",
        );
    }
    if recipe.train.clip_norm == Some(0.0) {
        note("train.clip_norm", "every gradient is clipped to 0, so nothing is trained; remove it to disable clipping");
    }
    match &recipe.schedule {
        ScheduleRecipe::Step { every, .. } if epochs > 0 && *every >= epochs => {
            note("schedule.every", "training ends before the learning rate first changes");
        }
        ScheduleRecipe::Step { factor, .. } if *factor == 0.0 => {
            note("schedule.factor", "the learning rate is 0 after the first step of the schedule");
        }
        _ => {}
    }
    if inherits_noise(written) {
        note(
            "noise",
            "labels of your own data are flipped on purpose, because a recipe that this one extends is for \
             experiments with label noise; set `noise.name = \"none\"` to train on your labels as they are",
        );
    }
    if recipe.eval.recall_at.is_empty() {
        note("eval.recall_at", "no Recall@K will be reported");
    }
    found
}

/// Whether noise from one recipe is injected into own data from another. Noise that is written next to the data is
/// meant.
fn inherits_noise(written: Written) -> bool {
    let own = matches!(written.recipe.data, DataRecipe::Folder(_) | DataRecipe::Csv(_) | DataRecipe::Features(_));
    let injected = !matches!(written.recipe.noise, NoiseRecipe::None | NoiseRecipe::List { .. });
    let source = |path: &str| written.tree.origin_of(path).place().map(|place| place.source.name.clone());
    own && injected && source("noise.name") != source("data.source")
}
