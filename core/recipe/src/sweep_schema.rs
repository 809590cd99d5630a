//! Schemas of `[sweep]` and `[tune]` for editors; the loader removes both before it validates a recipe.

use serde_json::{Value as Json, json};

/// The schema of `[sweep]`.
pub(super) fn sweep() -> Json {
    let named = json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
    json!({
        "description": "Many runs from one recipe, for `curricle bench`.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "methods": {
                "description": "Methods to compare: recipe files, built-in recipes such as `curricle:methods/ms`, or \
                                tables of settings with a `name`.",
                "type": "array",
                "minItems": 1,
                "items": { "anyOf": [{ "type": "string" }, named.clone()] },
            },
            "weights": {
                "description": "Weight schemes to combine with every method, instead of its own: names or `[weights]` \
                                tables. The methods are then called `ms+knn` and so on.",
                "type": "array",
                "minItems": 1,
                "items": { "anyOf": [{ "type": "string" }, named.clone()] },
            },
            "cases": {
                "description": "Experimental conditions to compare them under: tables of settings with a `name`.",
                "type": "array",
                "minItems": 1,
                "items": named,
            },
            "seeds": {
                "description": "Seeds of repetitions: a list, or a number N for 0 to N-1.",
                "anyOf": [
                    { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 0 } },
                    { "type": "integer", "minimum": 1 },
                ],
            },
            "grid": lists("Settings with lists of values, e.g. `noise.ratio = [0.1, 0.2]`: all combinations are run."),
            "zip": lists("Settings with lists of values of the same length, which vary together."),
            "exclude": {
                "description": "Combinations not to run, e.g. `{ method = \"snr\", noise.ratio = 0.3 }`: conditions on \
                                `method`, `case`, `seed` and any setting; a list matches any of its values.",
                "type": "array",
                "minItems": 1,
                "items": { "type": "object", "minProperties": 1 },
            },
        },
    })
}

/// The schema of `[tune]`.
pub(super) fn tune() -> Json {
    json!({
        "description": "Settings to tune on validation classes before the final runs, for `curricle tune` and \
                        `curricle bench`.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "grid": lists("Settings with lists of values, e.g. `loss.eta = [0.5, 1, 2]`: all combinations are tried."),
            "random": {
                "description": "Settings with ranges such as `{ min = 1e-4, max = 1e-2, log = true }` or lists of \
                                choices, from which the values of `trials` trials are drawn.",
                "type": "object",
                "minProperties": 1,
            },
            "trials": { "description": "Number of trials of `random`.", "type": "integer", "minimum": 1 },
            "seed": { "description": "Seed of `random`.", "type": "integer", "minimum": 0, "default": 0 },
            "metric": {
                "description": "The metric on the validation classes that selects the best trial.",
                "type": "string",
                "default": "recall@1",
            },
            "seeds": {
                "description": "Run each trial with the first seed of a sweep, or with all seeds and compare means.",
                "enum": ["first", "all"],
                "default": "first",
            },
        },
    })
}

/// A table of lists, or of nested tables that end in lists.
fn lists(description: &str) -> Json {
    json!({
        "description": description,
        "type": "object",
        "minProperties": 1,
        "additionalProperties": { "type": ["array", "object"], "minItems": 1 },
    })
}
