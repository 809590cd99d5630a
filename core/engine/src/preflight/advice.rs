//! Warnings about settings that components accept but that will not do what the user expects.

use super::groups;
use crate::call::call;
use crate::last_words::running;
use crate::method::Method;
use curricle_recipe::{DataRecipe, EvalOn, Problem, Recipe, Written};
use curricle_sdk::{Advice, ComponentKind, DataFacts, LossInfo};

/// Warnings from components and about parameter groups. Without `facts`, only what the recipe says about
/// the data is known.
pub fn advice(written: Written, method: &Method, facts: Option<&DataFacts>) -> Vec<Problem> {
    let recipe = written.recipe;
    let class_sizes = stated_class_sizes(recipe);
    let stated = DataFacts {
        class_sizes: &class_sizes,
        embedding_size: usize::try_from(recipe.embedding.size).unwrap_or(0),
        batch_size: method.sampler.batch_size(),
    };
    let facts = facts.unwrap_or(&stated);
    let mut warnings = groups::advice(written, &*method.loss, facts);
    let components = components(recipe, method, facts);
    warnings.extend(components.iter().map(|advice| written.warning(&advice.path, &advice.message)));
    let whole = |size: &usize| facts.batch_size > 0 && *size >= facts.batch_size;
    if recipe.train.micro_batch.as_ref().is_some_and(whole) {
        let message = format!("has no effect: batches have {} samples", facts.batch_size);
        warnings.push(written.warning("train.micro_batch", &message));
    }
    warnings
}

/// Sizes of the training classes, if the recipe itself states them.
fn stated_class_sizes(recipe: &Recipe) -> Vec<usize> {
    let DataRecipe::Strokes(strokes) = &recipe.data else { return Vec::new() };
    let classes = strokes.classes / 2;
    let trained = match recipe.eval.on {
        EvalOn::Test => classes,
        EvalOn::Validation => classes.saturating_sub(recipe.eval.validation_classes(classes)),
    };
    vec![strokes.per_class; trained]
}

fn components(recipe: &Recipe, method: &Method, facts: &DataFacts) -> Vec<Advice> {
    let loss = LossInfo { name: &recipe.loss.name, settings: &recipe.loss.settings };
    let asked = [
        (ComponentKind::Loss, {
            call(running(ComponentKind::Loss, &recipe.loss.name), &[], || Ok(method.loss.advice(facts)))
        }),
        (ComponentKind::Sampler, {
            call(running(ComponentKind::Sampler, &recipe.sampler.name), &[], || Ok(method.sampler.advice(facts)))
        }),
        (ComponentKind::Weights, {
            call(running(ComponentKind::Weights, &recipe.weights.name), &[], || Ok(method.weights.advice(facts, &loss)))
        }),
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

fn below(kind: ComponentKind, path: &str) -> String {
    if path.is_empty() { format!("{kind}.name") } else { format!("{kind}.{path}") }
}
