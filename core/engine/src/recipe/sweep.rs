//! `[sweep]`: one recipe for many runs.
//!
//! ```toml
//! [sweep]
//! methods = ["methods/ms.toml", "methods/bspml.toml"]
//! seeds = [0, 1, 2]
//! cases = [{ name = "noisy" }, { name = "clean", noise.name = "none" }]
//! ```
//!
//! A method contributes what its own file says, over the recipe with the sweep. What the method's
//! file extends does not count here, so that every method meets the same data, network and
//! optimiser: those of the sweep.

use super::files::{self, Layer};
use super::problems::{Problem, Problems};
use super::source::Origin;
use super::tree::{Entry, Node, Value};
use std::path::{Path, PathBuf};

/// What a recipe's `[sweep]` asks for.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Methods to compare; none stands for the recipe as it is.
    pub methods: Vec<Variation>,
    /// Circumstances to compare them in; none stands for the recipe as it is.
    pub cases: Vec<Variation>,
    /// Seeds of repetitions; none stands for the recipe's own.
    pub seeds: Vec<u64>,
}

/// Named settings over those of the recipe.
#[derive(Debug)]
pub(crate) struct Variation {
    pub name: String,
    pub layer: Layer,
}

/// Takes `[sweep]` out of the layers of a recipe. A later file's replaces an earlier one's.
pub(crate) fn take(layers: &mut [Layer]) -> Result<Option<Sweep>, Problems> {
    let mut found = None;
    for layer in layers {
        if let Some(entry) = layer.table.remove("sweep") {
            found = Some((entry, layer.source.clone()));
        }
    }
    let Some((entry, source)) = found else { return Ok(None) };
    let mut reader = Reader { folder: source.folder.clone(), source, problems: Vec::new() };
    let sweep = reader.sweep(entry);
    Problems::check(reader.problems)?;
    Ok(Some(sweep))
}

struct Reader {
    folder: PathBuf,
    source: std::sync::Arc<super::source::Source>,
    problems: Vec<Problem>,
}

impl Reader {
    fn sweep(&mut self, entry: Entry) -> Sweep {
        let mut sweep = Sweep::default();
        let Value::Table(table) = entry.node.value else {
            self.wrong(&entry.node.origin, "sweep", "must be a table");
            return sweep;
        };
        for setting in table {
            match setting.key.as_str() {
                "methods" => sweep.methods = self.list(setting, Self::method),
                "cases" => sweep.cases = self.list(setting, Self::case),
                "seeds" => sweep.seeds = self.list(setting, Self::seed),
                other => {
                    let known = ["methods", "cases", "seeds"];
                    let help = super::suggest::help(other, &known, "`[sweep]` has:");
                    let problem = Problem::new(&setting.key_origin, format!("`sweep` has no setting `{other}`"));
                    self.problems.push(Problem { help, ..problem.at(format!("sweep.{other}")) });
                }
            }
        }
        self.refuse_twins(&sweep.methods, "methods");
        self.refuse_twins(&sweep.cases, "cases");
        sweep
    }

    fn list<T>(&mut self, setting: Entry, read: impl Fn(&mut Self, Node) -> Option<T>) -> Vec<T> {
        let path = format!("sweep.{}", setting.key);
        match setting.node.value {
            Value::Array(nodes) if !nodes.is_empty() => nodes.into_iter().filter_map(|node| read(self, node)).collect(),
            Value::Array(_) => {
                self.wrong(&setting.node.origin, &path, "is empty; leave it out or name at least one");
                Vec::new()
            }
            _ => {
                self.wrong(&setting.node.origin, &path, "must be a list");
                Vec::new()
            }
        }
    }

    fn method(&mut self, node: Node) -> Option<Variation> {
        let Value::String(name) = &node.value else { return self.table(node, "sweep.methods") };
        let path = files::tidy(&self.folder.join(name));
        match files::layers(&path) {
            Ok(mut layers) => {
                let mut layer = layers.pop()?;
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                let name = layer.table.get_str("name").map_or(stem, str::to_string);
                layer.table.remove("name");
                Some(Variation { name, layer })
            }
            Err(problems) => {
                self.wrong(&node.origin, "sweep.methods", "names a recipe that cannot be read");
                self.problems.extend(problems.iter().cloned());
                None
            }
        }
    }

    fn case(&mut self, node: Node) -> Option<Variation> {
        self.table(node, "sweep.cases")
    }

    /// Settings written in the sweep itself, with the name to show for them.
    fn table(&mut self, node: Node, path: &str) -> Option<Variation> {
        let origin = node.origin;
        let Value::Table(mut table) = node.value else {
            self.wrong(&origin, path, "must hold tables such as `{ name = \"clean\", noise.name = \"none\" }`");
            return None;
        };
        let Some(name) = table.get_str("name").map(str::to_string) else {
            self.wrong(&origin, path, "has an entry without a `name`, which tables of results need");
            return None;
        };
        table.remove("name");
        Some(Variation { name, layer: Layer { source: self.source.clone(), table } })
    }

    #[expect(clippy::needless_pass_by_value, reason = "as the other readers of list entries")]
    fn seed(&mut self, node: Node) -> Option<u64> {
        let seed = match node.value {
            Value::Integer(seed) => u64::try_from(seed).ok(),
            _ => None,
        };
        if seed.is_none() {
            self.wrong(&node.origin, "sweep.seeds", "must hold whole numbers from 0");
        }
        seed
    }

    fn refuse_twins(&mut self, all: &[Variation], which: &str) {
        for (index, one) in all.iter().enumerate() {
            if all[..index].iter().any(|other| other.name == one.name) {
                let message = format!("`sweep.{which}` has two entries named `{}`", one.name);
                let problem = Problem::new(&files::beginning(&one.layer.source), message).at(format!("sweep.{which}"));
                self.problems.push(problem.help("give one of them another `name`"));
            }
        }
    }

    fn wrong(&mut self, origin: &Origin, path: &str, what: &str) {
        self.problems.push(Problem::new(origin, format!("`{path}` {what}")).at(path));
    }
}

/// The refusal to run a sweep as if it were one run.
pub(crate) fn refuse(layers: &[Layer], path: &Path) -> Option<Problem> {
    let entry = layers.iter().rev().find_map(|layer| layer.table.get("sweep"))?;
    let problem = Problem::new(&entry.key_origin, "this recipe describes many runs, not one").at("sweep");
    Some(problem.label("many runs").help(format!("use `curricle bench {}`", path.display())))
}
