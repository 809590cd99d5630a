//! Recipe files and the recipes they extend.
//!
//! Paths in `extends` are relative to the file that contains them. The files are merged in one
//! sequence, each after everything it extends, and a file that is reached twice keeps its first
//! position: if two recipes share a base, the base does not undo what the first of them changed.

use crate::built_in;
use crate::parse::parse;
use crate::paths::tidy;
use crate::problems::{Problem, Problems};
use crate::source::{Origin, Place, Source};
use crate::suggest;
use crate::tree::{Entry, Table, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One file's settings, without its `extends`.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// The file.
    pub source: Arc<Source>,
    /// Its settings.
    pub table: Table,
}

/// The recipe that a command names: a file, or a built-in recipe if there is no such file.
pub(crate) fn named_by_command(path: &Path) -> PathBuf {
    match built_in::find(path) {
        Some(recipe) if !path.exists() => built_in::full_name(recipe.name),
        _ => path.to_path_buf(),
    }
}

/// A recipe and everything it extends; the recipe itself comes last.
pub(crate) fn layers(path: &Path) -> Result<Vec<Layer>, Problems> {
    let mut loader = Loader { layers: Vec::new(), open: Vec::new(), done: Vec::new(), problems: Vec::new() };
    loader.file(path, &Origin::Default);
    Problems::check(loader.problems)?;
    Ok(loader.layers)
}

struct Loader {
    layers: Vec<Layer>,
    /// The files being read, each extended by the one before it.
    open: Vec<PathBuf>,
    done: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl Loader {
    fn file(&mut self, path: &Path, named_at: &Origin) {
        if self.done.iter().any(|done| done == path) {
            return;
        }
        if let Some(start) = self.open.iter().position(|open| open == path) {
            let cycle: Vec<_> = self.open[start..].iter().map(PathBuf::as_path).chain([path]).collect();
            let cycle: Vec<_> = cycle.iter().map(|p| format!("`{}`", p.display())).collect();
            let message = format!("recipes extend each other in a cycle: {}", cycle.join(" → "));
            self.problems.push(Problem::new(named_at, message).at("extends").label("closes the cycle"));
            return;
        }
        let (text, folder) = match read(path) {
            Ok(contents) => contents,
            Err(error) => return self.unreadable(path, named_at, &error),
        };
        let source = Source { name: path.display().to_string(), text, folder, is_argument: false };
        let source = Arc::new(source);
        let mut table = match parse(&source) {
            Ok(table) => table,
            Err(problems) => return self.problems.extend(problems),
        };
        self.open.push(path.to_path_buf());
        if let Some(extends) = table.remove("extends") {
            for (base, origin) in self.bases(extends) {
                self.file(&named_in(&source, &base), &origin);
            }
        }
        self.open.pop();
        self.done.push(path.to_path_buf());
        self.layers.push(Layer { source, table });
    }

    fn bases(&mut self, extends: Entry) -> Vec<(String, Origin)> {
        let wrong = |origin: &Origin| {
            Problem::new(origin, "`extends` must be a file name or a list of them")
                .at("extends")
                .help("for example `extends = [\"base/strokes.toml\"]`")
        };
        let nodes = match extends.node.value {
            Value::Array(nodes) => nodes,
            Value::String(_) => vec![extends.node],
            _ => {
                self.problems.push(wrong(&extends.node.origin));
                return Vec::new();
            }
        };
        let mut bases = Vec::new();
        for node in nodes {
            match node.value {
                Value::String(name) => bases.push((name, node.origin)),
                _ => self.problems.push(wrong(&node.origin)),
            }
        }
        bases
    }

    fn unreadable(&mut self, path: &Path, named_at: &Origin, error: &std::io::Error) {
        let shown = path.display();
        let problem = if error.kind() == std::io::ErrorKind::NotFound {
            let problem = Problem::new(named_at, format!("there is no recipe `{shown}`")).label("not found");
            let help = match near_file(path).or_else(|| near_built_in(path)) {
                _ if is_assignment(path) => format!("to override a setting, use `--set {shown}`"),
                Some(near) => format!("did you mean `{}`?", near.display()),
                None if built_in::is_built_in(path) => "`curricle list recipes` lists the built-in recipes".into(),
                None if named_at.place().is_some() => "paths are relative to the recipe that names them".into(),
                None => "`curricle init` writes a recipe, and `curricle list recipes` lists the built-in ones".into(),
            };
            problem.help(help)
        } else {
            let reason = match error.kind() {
                std::io::ErrorKind::IsADirectory => "it is a folder".to_string(),
                std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_string(),
                kind => kind.to_string(),
            };
            let problem = Problem::new(named_at, format!("cannot read the recipe `{shown}`: {reason}"));
            match error.kind() {
                std::io::ErrorKind::IsADirectory => {
                    problem.help(format!("`curricle init --images {shown}` writes a recipe for a folder of images"))
                }
                std::io::ErrorKind::PermissionDenied => {
                    problem.help("check the permissions of the file and its folder")
                }
                _ => problem,
            }
        };
        let path = if named_at.place().is_some() { "extends" } else { "" };
        self.problems.push(problem.at(path));
    }
}

/// The text of a recipe, and the folder that paths in it are relative to.
fn read(path: &Path) -> std::io::Result<(String, PathBuf)> {
    if built_in::is_built_in(path) {
        let recipe = built_in::find(path).ok_or(std::io::ErrorKind::NotFound)?;
        return Ok((recipe.text.to_string(), recipe.folder()));
    }
    Ok((fs_err::read_to_string(path)?, path.parent().unwrap_or(Path::new("")).to_path_buf()))
}

/// The recipe that a source names, in `extends` or in `sweep.methods`.
pub(crate) fn named_in(source: &Source, name: &str) -> PathBuf {
    if built_in::is_built_in(Path::new(name)) {
        return built_in::full_name(name);
    }
    if source.is_built_in() {
        return built_in::relative_to(&source.name, name);
    }
    tidy(&source.folder.join(name))
}

/// The name of the runs of a recipe that sets none: the last part of its path.
pub(crate) fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit(':').next().unwrap_or_default().to_string()
}

/// Whether a file name is rather a setting, as hydra takes them: `optimizer.lr=0.1`.
fn is_assignment(path: &Path) -> bool {
    let Some((key, _)) = path.to_str().and_then(|text| text.split_once('=')) else { return false };
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
}

/// A built-in recipe with a similar name, also for its path in the repository, `recipes/methods/ms.toml`, and for its
/// name without the folder, `bspml`.
fn near_built_in(path: &Path) -> Option<PathBuf> {
    let name = path.to_str()?.trim_start_matches("curricle:").trim_start_matches("recipes/").trim_end_matches(".toml");
    let names = || built_in::built_in().iter().map(|recipe| recipe.name);
    let in_folder = |folder: &'static str| names().find(|&known| known.strip_prefix(folder) == Some(name));
    let near = in_folder("methods/").or_else(|| suggest::nearest(name, names()))?;
    Some(built_in::full_name(near))
}

/// A recipe with a similar name: in the same folder, or with `.toml` added.
fn near_file(path: &Path) -> Option<PathBuf> {
    let with_extension = PathBuf::from(format!("{}.toml", path.display()));
    if with_extension.is_file() {
        return Some(with_extension);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = fs_err::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_file());
    let mut names: Vec<_> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".toml"));
    names.sort();
    let near = suggest::nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near))
}

/// The origin of a whole file: its beginning.
pub(crate) fn beginning(source: &Arc<Source>) -> Origin {
    Origin::Written(Place::new(source, 0..0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, first: &str) -> Vec<String> {
        let layers = layers(&folder.join(first)).unwrap();
        layers.iter().map(|l| l.source.name.rsplit('/').next().unwrap().to_string()).collect()
    }

    #[test]
    fn bases_come_first_and_a_shared_base_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
        fs_err::create_dir(folder.path().join("base")).unwrap();
        write("base/all.toml", "seed = 1");
        write("base/data.toml", "extends = 'all.toml'");
        write("base/loss.toml", "extends = ['../base/all.toml']");
        write("method.toml", "extends = ['base/data.toml', 'base/loss.toml']");
        assert_eq!(names(folder.path(), "method.toml"), ["all.toml", "data.toml", "loss.toml", "method.toml"]);
    }
}
