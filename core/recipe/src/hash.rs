//! The hash that identifies a recipe.

use crate::settings::EvalRecipe;
use serde_json::Value as Json;

/// Canonical JSON, the same text for equal values: keys sorted, no spaces.
pub(crate) fn canonical(json: &Json) -> String {
    match json {
        Json::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{}:{}", Json::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

/// Hash of everything in a recipe that affects the computation, except the seed: runs with the same
/// hash are repetitions of each other. `plugins` are the content hashes of the libraries that the
/// recipe uses; their paths and their order do not matter.
pub fn identity(recipe: &Json, plugins: &[&str]) -> String {
    let mut recipe = recipe.clone();
    if let Some(map) = recipe.as_object_mut() {
        map.retain(|key, _| !matches!(key.as_str(), "seed" | "name" | "description" | "method" | "case" | "plugins"));
        if let Some(backbone) = map.get_mut("backbone").and_then(Json::as_object_mut)
            && backbone.get("sha256").is_some_and(Json::is_string)
        {
            // The contents count, not where they are.
            backbone.remove("path");
        }
        if let Some(eval) = map.get_mut("eval").and_then(Json::as_object_mut) {
            // The default depends on the device, which is not part of a recipe.
            eval.entry("batch_size").or_insert_with(|| EvalRecipe::CPU_BATCH.into());
        }
        if !plugins.is_empty() {
            let mut plugins = plugins.to_vec();
            plugins.sort_unstable();
            plugins.dedup();
            map.insert("plugins".into(), plugins.into());
        }
    }
    blake3::hash(canonical(&recipe).as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn order_name_and_seed_do_not_change_the_hash() {
        let identity = |recipe: Json| identity(&recipe, &[]);
        let a =
            identity(json!({ "seed": 1, "name": "a", "method": "m", "case": "c", "loss": { "x": 1.0, "y": [1, 2] } }));
        let b = identity(json!({ "loss": { "y": [1, 2], "x": 1.0 }, "description": "b" }));
        assert_eq!(a, b);
        assert_ne!(a, identity(json!({ "loss": { "x": 1.0, "y": [2, 1] } })));
        assert_ne!(a, identity(json!({ "loss": { "x": 1.0, "y": [1, 2], "seed": 1 } })));
    }

    #[test]
    fn the_default_batch_size_of_evaluation_is_hashed_as_on_a_cpu() {
        let identity = |eval: Json| identity(&json!({ "eval": eval }), &[]);
        assert_eq!(identity(json!({ "every": 2 })), identity(json!({ "every": 2, "batch_size": 32 })));
        assert_ne!(identity(json!({ "every": 2 })), identity(json!({ "every": 2, "batch_size": 64 })));
    }

    #[test]
    fn contents_of_a_torchscript_file_change_the_hash_and_its_path_does_not() {
        let recipe = |path: &str, hash: &str| json!({ "backbone": { "path": path, "sha256": hash } });
        assert_eq!(identity(&recipe("/a.pt", "aa"), &[]), identity(&recipe("/b.pt", "aa"), &[]));
        assert_ne!(identity(&recipe("/a.pt", "aa"), &[]), identity(&recipe("/a.pt", "ab"), &[]));
    }

    #[test]
    fn contents_of_plugins_change_the_hash_and_paths_do_not() {
        let recipe = |path: &str| json!({ "plugins": { "paths": [{ "path": path, "sha256": "aa" }] }, "loss": {} });
        assert_eq!(identity(&recipe("/a.so"), &["aa", "bb"]), identity(&recipe("/b.so"), &["bb", "aa", "aa"]));
        assert_ne!(identity(&recipe("/a.so"), &["aa"]), identity(&recipe("/a.so"), &["ab"]));
        assert_eq!(identity(&recipe("/a.so"), &[]), identity(&json!({ "loss": {} }), &[]), "unused plugin");
    }
}
