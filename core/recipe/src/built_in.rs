//! Recipes that are part of the program: `curricle:methods/bspml`.
//!
//! They are the recipes of the repository. A built-in recipe behaves as if it were in the folder `recipes` of the
//! current folder, so data sets are looked for in `data` next to it.

use crate::paths::tidy;
use std::path::{Path, PathBuf};

/// What names of built-in recipes start with.
const PREFIX: &str = "curricle:";

/// A recipe that is part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name without `curricle:`, such as `methods/bspml`.
    pub name: &'static str,
    /// The text of the recipe.
    pub text: &'static str,
}

/// All built-in recipes, sorted by name.
pub fn built_in() -> &'static [BuiltIn] {
    static RECIPES: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/recipes.rs"));
    RECIPES
}

impl BuiltIn {
    /// The comment at its beginning, up to the first full stop or colon.
    pub fn summary(&self) -> String {
        let comment = self.text.lines().skip_while(|line| line.starts_with("#:"));
        let comment = comment.map_while(|line| line.strip_prefix('#')).map(str::trim).take_while(|l| !l.is_empty());
        let comment = comment.collect::<Vec<_>>().join(" ");
        let end = [". ", ": "].iter().filter_map(|end| comment.find(end)).min();
        comment[..end.unwrap_or(comment.len())].trim_end_matches('.').to_string()
    }

    /// The folder it behaves as if it were in.
    pub(crate) fn folder(&self) -> PathBuf {
        Path::new("recipes").join(self.name).parent().map(Path::to_path_buf).unwrap_or_default()
    }
}

/// Whether this is the name of a built-in recipe, even of one that does not exist.
pub(crate) fn is_built_in(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(PREFIX))
}

/// The recipe with this name, with or without `curricle:` and `.toml`.
pub(crate) fn find(path: &Path) -> Option<&'static BuiltIn> {
    let name = plain(path.to_str()?);
    built_in().iter().find(|recipe| recipe.name == name)
}

/// The full name of a recipe that a built-in recipe refers to: `../base/strokes.toml` in `curricle:methods/ms` is
/// `curricle:base/strokes`.
pub(crate) fn relative_to(recipe: &str, name: &str) -> PathBuf {
    let folder = Path::new(plain(recipe)).parent().unwrap_or(Path::new(""));
    full_name(&tidy(&folder.join(name)).to_string_lossy())
}

/// `curricle:methods/ms` for `methods/ms.toml`.
pub(crate) fn full_name(name: &str) -> PathBuf {
    format!("{PREFIX}{}", plain(name)).into()
}

fn plain(name: &str) -> &str {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    name.strip_suffix(".toml").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_found_with_or_without_prefix_and_extension() {
        for name in ["quickstart", "quickstart.toml", "curricle:quickstart", "curricle:quickstart.toml"] {
            assert_eq!(find(Path::new(name)).unwrap().name, "quickstart", "{name}");
        }
        assert_eq!(find(Path::new("methods/none")), None);
    }

    #[test]
    fn names_in_built_in_recipes_are_relative_to_them() {
        let base = relative_to("curricle:methods/ms", "../base/strokes.toml");
        assert_eq!(base, Path::new("curricle:base/strokes"));
        assert_eq!(relative_to("curricle:quickstart", "methods/ms.toml"), Path::new("curricle:methods/ms"));
    }

    #[test]
    fn every_recipe_says_what_it_is_for() {
        for recipe in built_in() {
            assert!(recipe.summary().len() > 10, "`{}` has no comment at its beginning", recipe.name);
        }
    }
}
