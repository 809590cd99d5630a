//! Files and folders that a recipe names but that do not exist.

use curricle_recipe::{DataRecipe, NoiseRecipe, Problem, Written};
use std::path::Path;

/// Everything that is missing.
pub(super) fn missing(written: Written) -> Vec<Problem> {
    let recipe = written.recipe;
    let mut named: Vec<(&str, &Path, Wanted)> = Vec::new();
    match &recipe.data {
        DataRecipe::Strokes(_) => {}
        DataRecipe::Features(features) => named.push(("data.path", &features.path, Wanted::File)),
        DataRecipe::Folder(folder) => named.push(("data.path", &folder.path, Wanted::Folder)),
        DataRecipe::Csv(list) => {
            named.push(("data.path", &list.path, Wanted::File));
            named.extend(list.root.as_deref().map(|root| ("data.root", root, Wanted::Folder)));
        }
        DataRecipe::Cub200(set) | DataRecipe::Cars196(set) | DataRecipe::Sop(set) | DataRecipe::Inshop(set) => {
            named.push(("data.path", &set.path, Wanted::Folder));
        }
    }
    if let NoiseRecipe::List { path, .. } = &recipe.noise {
        named.push(("noise.path", path, Wanted::File));
    }
    named.extend(recipe.backbone.torchscript().map(|script| ("backbone.path", script.path.as_path(), Wanted::File)));
    named.extend(recipe.backbone.weights().map(|weights| ("backbone.weights", weights, Wanted::File)));
    named.into_iter().filter_map(|(setting, path, wanted)| wanted.problem(written, setting, path)).collect()
}

#[derive(Clone, Copy)]
enum Wanted {
    File,
    Folder,
}

impl Wanted {
    fn problem(self, written: Written, setting: &str, path: &Path) -> Option<Problem> {
        let shown = path.display();
        // A pipe or a device counts as a file here; reading it gives the right error.
        let (message, label) = match (self, path.is_dir(), path.exists()) {
            (Wanted::Folder, true, _) | (Wanted::File, false, true) => return None,
            (Wanted::Folder, _, true) => (format!("`{shown}` is not a folder"), "not a folder"),
            (Wanted::File, true, _) => (format!("`{shown}` is a folder, not a file"), "a folder"),
            (Wanted::Folder, _, false) => (format!("there is no folder `{shown}`"), "not found"),
            (Wanted::File, _, false) => (format!("there is no file `{shown}`"), "not found"),
        };
        let place = written.tree.origin_of(setting);
        let help = match place.place() {
            Some(place) if place.source.is_argument => "paths in `--set` are relative to the current folder".into(),
            Some(place) if place.source.is_built_in() => format!(
                "built-in recipes look for data in the current folder; move it there or use `--set {setting}=PATH`"
            ),
            _ => format!("paths are relative to the recipe that names them; or use `--set {setting}=PATH`"),
        };
        Some(written.problem(setting, message).label(label).help(help))
    }
}
