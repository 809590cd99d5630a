//! `[groups]`: parameter groups that do not exist or will hardly change.

use crate::backbone;
use crate::call::call;
use crate::declarations::{check_specs, check_state};
use crate::last_words::running;
use curricle_recipe::{Problem, Recipe, Written, suggestion};
use curricle_sdk::{ComponentKind, DataFacts, Error, Loss, Shape, TensorSpec, WeightScheme};

/// Numbers of classes to try where the data is not known yet.
const ANY_CLASSES: [i64; 3] = [2, 100, 10_000];

/// The trainable tensors of a loss.
pub(super) fn declared(recipe: &Recipe, loss: &dyn Loss) -> Result<Vec<TensorSpec>, Error> {
    at_any_size(recipe, |shape| trainable(&recipe.loss.name, loss, shape))
}

/// Checks the tensors of a weight scheme.
pub(super) fn check_scheme(recipe: &Recipe, scheme: &dyn WeightScheme) -> Result<(), Error> {
    let name = &recipe.weights.name;
    at_any_size(recipe, |shape| {
        call(running(ComponentKind::Weights, name), &[], || check_state(&scheme.tensors(shape)))
    })
}

/// Asks a component what it declares. Names, groups and scales do not depend on the sizes, so any will do. A component
/// may refuse some sizes; one that refuses all of them has another mistake, such as settings that do not fit together.
fn at_any_size<T: Default>(recipe: &Recipe, declare: impl Fn(&Shape) -> Result<T, Error>) -> Result<T, Error> {
    let mut first = None;
    for classes in ANY_CLASSES {
        match declare(&Shape { classes, samples: 2 * classes, embedding: recipe.embedding.size }) {
            Ok(declared) => return Ok(declared),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or_else(|| Ok(T::default()), Err)
}

fn trainable(name: &str, loss: &dyn Loss, shape: &Shape) -> Result<Vec<TensorSpec>, Error> {
    let specs = call(running(ComponentKind::Loss, name), &[], || {
        let specs = loss.tensors(shape);
        check_specs(&specs)?;
        Ok(specs)
    })?;
    Ok(specs.into_iter().filter(|spec| spec.trainable).collect())
}

/// Parameter groups that the network does not have.
pub(super) fn unknown(written: Written) -> Vec<Problem> {
    let recipe = written.recipe;
    let of_the_model = |group: &&String| matches!(group.split('.').next(), Some("backbone" | "embedding"));
    let groups: Vec<_> = recipe.groups.keys().filter(of_the_model).filter(|group| group.contains('.')).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let Ok(names) = backbone::tensor_names(&recipe.backbone, &recipe.embedding) else { return Vec::new() };
    let known = backbone::parameter_groups(names.iter().map(String::as_str));
    let mut problems = Vec::new();
    for group in groups.into_iter().filter(|group| !known.contains(*group)) {
        let message = format!("backbone `{}` has no parameter group `{group}`", recipe.backbone.name());
        let problem = Problem::new(&key_origin(written, group), message).at(format!("groups.{group}"));
        problems.push(problem.label("no such parameter group").help(backbone::suggest_group(group, &known)));
    }
    problems
}

/// Where the name of a group was written.
fn key_origin(written: Written, group: &str) -> curricle_recipe::Origin {
    let groups = written.tree.as_table().and_then(|table| table.get("groups"));
    let entry = groups.and_then(|entry| entry.node.as_table()).and_then(|table| table.get(group));
    entry.map(|entry| entry.key_origin.clone()).unwrap_or_default()
}

/// Groups that belong neither to the network nor to a tensor of the loss.
pub(super) fn undeclared(written: Written, trainable: &[TensorSpec]) -> Vec<Problem> {
    let recipe = written.recipe;
    let names: Vec<_> =
        ["backbone", "embedding"].into_iter().chain(trainable.iter().map(|spec| spec.group.as_ref())).collect();
    // Groups within the network are checked by `unknown`.
    let of_the_model = |group: &str| matches!(group.split('.').next(), Some("backbone" | "embedding"));
    let mut problems = Vec::new();
    for group in recipe.groups.keys().filter(|group| !of_the_model(group) && !names.contains(&group.as_str())) {
        let message = format!("there is no parameter group `{group}`");
        let help = suggestion(group, &names, &format!("available with loss `{}`:", recipe.loss.name));
        let problem = Problem::new(&key_origin(written, group), message).at(format!("groups.{group}"));
        problems.push(Problem { help, ..problem.label("no such parameter group") });
    }
    problems
}

/// Declared tensors that will hardly change.
pub(super) fn advice(written: Written, loss: &dyn Loss, facts: &DataFacts) -> Vec<Problem> {
    let recipe = written.recipe;
    // Names and scales do not depend on the sizes, so any will do where they are unknown.
    let shape = Shape {
        classes: facts.class_sizes.len().max(2) as i64,
        samples: facts.class_sizes.iter().sum::<usize>().max(4) as i64,
        embedding: recipe.embedding.size,
    };
    let trainable = trainable(&recipe.loss.name, loss, &shape).unwrap_or_default();
    let mut found = Vec::new();
    for (name, group) in &recipe.groups {
        let declared = trainable.iter().find(|spec| spec.group == *name);
        if let Some(message) = group.lr_scale.and_then(|scale| slow(scale, declared)) {
            found.push(written.warning(&format!("groups.{name}.lr_scale"), &message));
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
