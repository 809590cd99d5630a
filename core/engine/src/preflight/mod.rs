//! Checks before training that depend on components, networks and files. `check` and `run` share them,
//! so both refuse the same recipes.

mod advice;
mod files;
mod groups;
mod network;

pub use advice::advice;

use crate::backbone;
use crate::method::{Method, RefusedSettings};
use crate::registry::{RegisteredComponent, Registry};
use curricle_recipe::{Catalogue, ComponentSchema, NoiseRecipe, PluginFile, Problem, Refusal, Written};
use curricle_sdk::ComponentKind;
use std::path::Path;

/// Examines new recipes, or the stored recipe of a run.
#[derive(Debug, Clone)]
struct Examiner<'r> {
    registry: &'r Registry,
    /// Whether files that the recipe names must exist.
    files: bool,
}

impl Examiner<'_> {
    fn examine(&self, written: Written) -> Result<Vec<(String, f64)>, Vec<Problem>> {
        let mut problems = groups::unknown(written);
        problems.extend(network::problems(written));
        if self.files {
            problems.extend(files::missing(written));
            problems.extend(network::unusable_script(written));
        }
        let mut lr_scales = Vec::new();
        match Method::new(written.recipe, self.registry) {
            Ok(method) => {
                let mut refused = Vec::new();
                match groups::declared(written.recipe, &*method.loss) {
                    Ok(specs) => {
                        problems.extend(groups::undeclared(written, &specs));
                        lr_scales.extend(specs.into_iter().map(|spec| (spec.group.to_string(), spec.lr_scale)));
                    }
                    Err(error) => refused.push((ComponentKind::Loss, &written.recipe.loss.name, error)),
                }
                if let Err(error) = groups::check_scheme(written.recipe, &*method.weights) {
                    refused.push((ComponentKind::Weights, &written.recipe.weights.name, error));
                }
                let refused =
                    refused.into_iter().map(|(kind, name, error)| RefusedSettings { kind, name: name.clone(), error });
                problems.extend(refusals(refused.collect(), written, self.registry));
                problems.extend(missing_flips(written, &method));
                problems.extend(missing_average(written, &method));
                problems.extend(unused_weights(written, &method));
            }
            Err(refused) => problems.extend(refusals(refused, written, self.registry)),
        }
        if problems.is_empty() { Ok(lr_scales) } else { Err(problems) }
    }
}

/// Components that need a moving average of the network which the recipe does not have.
fn missing_average(written: Written, method: &Method) -> Vec<Problem> {
    let recipe = written.recipe;
    let needs = [
        (ComponentKind::Loss, &recipe.loss.name, method.loss.needs_ema()),
        (ComponentKind::Weights, &recipe.weights.name, method.weights.needs_ema()),
    ];
    let missing = needs.into_iter().filter(|(_, _, needs)| *needs && recipe.train.ema.is_none());
    let problem = |(kind, name, _): (ComponentKind, &String, bool)| {
        let message = format!("{kind} `{name}` needs a moving average of the network");
        let problem = written.problem(format!("{kind}.name"), message).label("needs `train.ema`");
        problem.help("set its decay, e.g. `train.ema = 0.999`")
    };
    missing.map(problem).collect()
}

/// A weight scheme that needs to know which labels were flipped, in a recipe that flips none.
fn missing_flips(written: Written, method: &Method) -> Option<Problem> {
    let recipe = written.recipe;
    if !method.weights.needs_flips() || !matches!(recipe.noise, NoiseRecipe::None) {
        return None;
    }
    let message = format!("weights `{}` needs label noise whose flips are known", recipe.weights.name);
    let problem = written.problem("weights.name", message).label("the recipe injects no noise");
    Some(problem.help("add `[noise]`, or use `uniform`"))
}

/// A weight scheme whose weights the loss does not take.
fn unused_weights(written: Written, method: &Method) -> Option<Problem> {
    let recipe = written.recipe;
    if method.loss.takes_weights() || method.weights.is_uniform() {
        return None;
    }
    let (loss, weights) = (&recipe.loss.name, &recipe.weights.name);
    let message = format!("loss `{loss}` does not take weights, so `{weights}` would have no effect");
    let problem = written.problem("weights.name", message).label(format!("not used by `{loss}`"));
    Some(problem.help("use them in its `forward` (in Python: add an argument `weights`), or remove `[weights]`"))
}

impl Catalogue for Registry {
    fn components(&self) -> Vec<ComponentSchema> {
        self.iter().map(RegisteredComponent::schema).collect()
    }

    fn plugins(&self) -> Vec<PluginFile> {
        Registry::plugins(self).iter().map(|plugin| plugin.file()).collect()
    }

    fn add_plugin(&mut self, path: &Path, pin: Option<&str>) -> Result<(), Refusal> {
        Registry::add_plugin(self, path, pin).map(drop)
    }

    fn examine(&self, written: Written) -> Result<Vec<(String, f64)>, Vec<Problem>> {
        Examiner { registry: self, files: true }.examine(written)
    }

    fn file_hash(&self, path: &Path) -> Option<String> {
        backbone::script_hash(path).ok()
    }

    fn advise(&self, written: Written) -> Vec<Problem> {
        match Method::new(written.recipe, self) {
            Ok(method) => advice(written, &method, None),
            Err(_) => Vec::new(),
        }
    }
}

/// A registry for recipes whose files need not exist here: those of finished runs, and plans that are
/// only inspected.
#[derive(Debug, Clone)]
pub struct WithoutFiles(pub Registry);

impl Catalogue for WithoutFiles {
    fn components(&self) -> Vec<ComponentSchema> {
        self.0.components()
    }

    fn plugins(&self) -> Vec<PluginFile> {
        Catalogue::plugins(&self.0)
    }

    fn add_plugin(&mut self, path: &Path, pin: Option<&str>) -> Result<(), Refusal> {
        Catalogue::add_plugin(&mut self.0, path, pin)
    }

    fn examine(&self, written: Written) -> Result<Vec<(String, f64)>, Vec<Problem>> {
        Examiner { registry: &self.0, files: false }.examine(written)
    }

    fn file_hash(&self, path: &Path) -> Option<String> {
        self.0.file_hash(path)
    }

    fn advise(&self, written: Written) -> Vec<Problem> {
        self.0.advise(written)
    }
}

/// Refused settings as problems of a recipe.
pub(crate) fn refusals(refused: Vec<RefusedSettings>, written: Written, registry: &Registry) -> Vec<Problem> {
    let problem = |RefusedSettings { kind, name, error }| {
        let (path, message) = match error {
            curricle_sdk::Error::Setting { path, message } => {
                (format!("{kind}.{path}"), format!("`{kind}.{path}`: {message}"))
            }
            other => {
                let plugin = registry.plugin_of(kind, &name).map(|p| format!("plugin `{}`: ", p.path.display()));
                (format!("{kind}.name"), format!("{}{kind} `{name}`: {other}", plugin.unwrap_or_default()))
            }
        };
        written.problem(path, message).label(format!("refused by `{name}`"))
    };
    refused.into_iter().map(problem).collect()
}
