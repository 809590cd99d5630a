//! Paths as text, without file access.

use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..`: `recipes/methods/../base/x.toml` becomes `recipes/base/x.toml`.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match result.components().next_back() {
                Some(Component::Normal(_)) => drop(result.pop()),
                Some(Component::RootDir) => {}
                _ => result.push(component),
            },
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_tidied_without_file_access() {
        assert_eq!(tidy(Path::new("recipes/methods/../base/x.toml")), Path::new("recipes/base/x.toml"));
        assert_eq!(tidy(Path::new("../x.toml")), Path::new("../x.toml"));
        assert_eq!(tidy(Path::new("./a/./x.toml")), Path::new("a/x.toml"));
    }
}
