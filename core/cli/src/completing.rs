//! What the shell offers while a command line is typed: recipes, components and settings.

use clap_complete::CompletionCandidate;
use clap_complete::engine::{PathCompleter, ValueCompleter};
use curricle_engine::Registry;
use curricle_recipe::{Catalogue, Schema, assignments, built_in, listings};
use std::ffi::OsStr;

fn schema() -> Schema {
    Schema::of_recipes(&Registry::built_in().components())
}

/// Candidates that continue what has been typed.
fn matching(typed: &OsStr, candidates: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let candidates = candidates.filter(|(value, _)| value.starts_with(&*typed));
    candidates.map(|(value, help)| CompletionCandidate::new(value).help(Some(help.into()))).collect()
}

/// Recipe files and built-in recipes.
pub(crate) fn recipes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_recipe = |path: &std::path::Path| path.extension().is_some_and(|extension| extension == "toml");
    let mut found = PathCompleter::any().filter(is_recipe).complete(typed);
    // The full name is offered to those who begin to type it.
    let prefix = if typed.to_string_lossy().starts_with("curricle:") { "curricle:" } else { "" };
    let names = built_in().iter().map(|recipe| (format!("{prefix}{}", recipe.name), recipe.summary()));
    found.extend(matching(typed, names));
    found
}

/// Kinds of components, for `curricle list`.
pub(crate) fn kinds(typed: &OsStr) -> Vec<CompletionCandidate> {
    let kinds = listings(&schema()).into_iter().map(|listing| (listing.kind, listing.summary));
    matching(typed, kinds.chain([("recipes".to_string(), "Built-in recipes.".to_string())]))
}

/// Names of losses and weight schemes, for `curricle probe`.
pub(crate) fn probed(typed: &OsStr) -> Vec<CompletionCandidate> {
    let probed = listings(&schema()).into_iter().filter(|listing| matches!(listing.kind.as_str(), "loss" | "weights"));
    let choices = probed.flat_map(|listing| listing.choices);
    matching(typed, choices.map(|choice| (choice.name, choice.summary)))
}

/// Settings for `--set`, with their values where these have names: `loss.name=ms`, `train.epochs=`.
pub(crate) fn settings(typed: &OsStr) -> Vec<CompletionCandidate> {
    matching(typed, assignments(&schema()).into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: Vec<CompletionCandidate>) -> Vec<String> {
        candidates.into_iter().map(|c| c.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn built_in_recipes_and_components_are_offered() {
        assert!(values(recipes(OsStr::new("methods/bs"))).contains(&"methods/bspml".to_string()));
        assert_eq!(values(recipes(OsStr::new("curricle:methods/bs"))), ["curricle:methods/bspml"]);
        assert_eq!(values(probed(OsStr::new("proxy"))), ["proxy_anchor"]);
        assert_eq!(values(settings(OsStr::new("optimizer.name=adamw"))), ["optimizer.name=adamw"]);
        assert_eq!(
            values(settings(OsStr::new("optimizer.nest"))),
            ["optimizer.nesterov=false", "optimizer.nesterov=true"]
        );
        assert_eq!(values(settings(OsStr::new("train.ep"))), ["train.epochs="]);
        assert_eq!(values(settings(OsStr::new("sampler.name=p"))), ["sampler.name=pk"]);
    }
}
