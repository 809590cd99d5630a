//! Warnings before training about settings that are valid but probably not what the user wants.

use super::declared;
use super::problems::Problem;
use super::resolve::{Resolved, written};
use super::settings::{DataRecipe, EvalOn, EvalRecipe, OptimizerRecipe, Recipe, ScheduleRecipe};
use super::suggest;
use crate::data::validation::classes_set_aside;
use curricle_sdk::{Advice, DataFacts, Kind, LossInfo, Shape, TensorSpec, guard};

/// Warnings about a recipe, from the engine and from its components. Without `facts` about the
/// data, only those that the recipe states are used.
pub fn advice(resolved: &Resolved, facts: Option<&DataFacts>) -> Vec<Problem> {
    let class_sizes = stated_class_sizes(&resolved.recipe);
    let stated = DataFacts {
        class_sizes: &class_sizes,
        embedding_size: usize::try_from(resolved.recipe.embedding.size).unwrap_or(0),
        batch_size: resolved.components.sampler.batch_size(),
    };
    let facts = facts.unwrap_or(&stated);
    let mut warnings: Vec<_> = training(&resolved.recipe).into_iter().map(|a| warning(resolved, &a)).collect();
    warnings.extend(groups(resolved, facts));
    warnings.extend(components(resolved, facts).iter().map(|advice| warning(resolved, advice)));
    warnings
}

fn warning(resolved: &Resolved, advice: &Advice) -> Problem {
    let origin = written(&resolved.tree, &advice.path);
    let shown = match resolved.tree.find(&advice.path) {
        Some(entry) if entry.node.as_table().is_none() => format!("`{} = {}`", advice.path, entry.node.to_json()),
        _ => format!("`{}`", advice.path),
    };
    Problem::warning(&origin, format!("{shown}: {}", advice.message)).at(advice.path.as_str())
}

/// Samples per training class, if the recipe states them.
fn stated_class_sizes(recipe: &Recipe) -> Vec<usize> {
    match &recipe.data {
        DataRecipe::Strokes(strokes) => vec![strokes.per_class; trained(strokes.classes / 2, &recipe.eval)],
        _ => Vec::new(),
    }
}

/// Number of classes left for training after validation classes are held out.
fn trained(classes: usize, eval: &EvalRecipe) -> usize {
    match eval.on {
        EvalOn::Test => classes,
        EvalOn::Validation => classes.saturating_sub(classes_set_aside(classes, eval.validation_share)),
    }
}

fn training(recipe: &Recipe) -> Vec<Advice> {
    let mut found = Vec::new();
    let mut note = |path: &str, message: &str| found.push(Advice::new(path, message));
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
    if let Some(vision) = recipe.backbone.vision() {
        let head = recipe.train.head_epochs;
        if vision.weights.as_ref().is_some_and(|path| !path.exists()) {
            note("backbone.weights", "file not found");
        }
        if vision.frozen && vision.weights.is_none() {
            note("backbone.frozen", "the backbone stays randomly initialised; set `backbone.weights`");
        } else if vision.frozen_norm && vision.weights.is_none() {
            note("backbone.frozen_norm", "batch norm keeps its initial statistics; set `backbone.weights`");
        }
        if vision.frozen && head > 0 {
            note("train.head_epochs", "has no effect: with `backbone.frozen`, only the head is trained");
        } else if head > 0 && head >= epochs {
            note("train.head_epochs", "the backbone is never trained; `backbone.frozen = true` does the same faster");
        }
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
    if recipe.eval.recall_at.is_empty() {
        note("eval.recall_at", "no Recall@K will be reported");
    }
    found
}

/// Warnings about unknown parameter groups, and about declared tensors that will hardly be trained.
fn groups(resolved: &Resolved, facts: &DataFacts) -> Vec<Problem> {
    let recipe = &resolved.recipe;
    // Names and scales do not depend on the sizes, so placeholders will do where these are unknown.
    let shape = Shape {
        classes: facts.class_sizes.len().max(2) as i64,
        samples: facts.class_sizes.iter().sum::<usize>().max(4) as i64,
        embedding: recipe.embedding.size,
    };
    let trainable = declared::trainable(resolved.components.loss.as_ref(), &shape);
    let names: Vec<_> =
        ["backbone", "embedding"].into_iter().chain(trainable.iter().map(|s| s.group.as_ref())).collect();
    let mut found = Vec::new();
    for (name, group) in &recipe.groups {
        let path = format!("groups.{name}");
        // Groups within the network are checked in `resolve`.
        if !names.contains(&name.as_str()) && !name.contains('.') {
            let origin = resolved.tree.find(&path).map(|entry| entry.key_origin.clone()).unwrap_or_default();
            let message = format!("`{path}` has no effect: there is no such parameter group");
            let help = suggest::help(name, &names, &format!("available with loss `{}`:", recipe.loss.name));
            found.push(Problem { help, ..Problem::warning(&origin, message).at(path) });
        } else if let Some(scale) = group.lr_scale {
            let declared = trainable.iter().find(|spec| spec.group == *name);
            if let Some(message) = slow(scale, declared) {
                found.push(warning(resolved, &Advice::new(format!("{path}.lr_scale"), message)));
            }
        }
    }
    found
}

fn slow(scale: f64, declared: Option<&TensorSpec>) -> Option<String> {
    match declared {
        _ if scale == 0.0 => Some("these parameters keep their initial values".into()),
        Some(spec) if scale <= spec.lr_scale / 100.0 => Some(format!(
            "`{}` will hardly change from its initial values; the loss declares {}",
            spec.name, spec.lr_scale
        )),
        _ => None,
    }
}

fn components(resolved: &Resolved, facts: &DataFacts) -> Vec<Advice> {
    let Resolved { recipe, components, .. } = resolved;
    let loss = LossInfo { name: &recipe.loss.name, settings: &recipe.loss.settings };
    let asked = [
        (Kind::Loss, guard(|| Ok(components.loss.advice(facts)))),
        (Kind::Sampler, guard(|| Ok(components.sampler.advice(facts)))),
        (Kind::Weights, guard(|| Ok(components.weights.advice(facts, &loss)))),
    ];
    let mut found = Vec::new();
    for (kind, answer) in asked {
        match answer {
            Ok(advice) => found.extend(advice.into_iter().map(|a| Advice::new(below(kind, &a.path), a.message))),
            Err(error) => found.push(Advice::new(kind.as_str(), format!("failed when asked for advice: {error}"))),
        }
    }
    found
}

fn below(kind: Kind, path: &str) -> String {
    if path.is_empty() { format!("{kind}.name") } else { format!("{kind}.{path}") }
}
