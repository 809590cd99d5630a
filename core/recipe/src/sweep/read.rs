//! Reading `[sweep]`.

use super::exclude::Exclusion;
use super::{Sweep, Variation};
use crate::files::{self, Layer};
use crate::grid;
use crate::problems::Problem;
use crate::source::{Origin, Source};
use crate::suggest;
use crate::tree::{Entry, Node, Table, Value};
use crate::tune::Tune;
use std::sync::Arc;

/// Largest number of seeds.
const MAX_SEEDS: i128 = 10_000;

const SETTINGS: [&str; 7] = ["methods", "weights", "cases", "seeds", "grid", "zip", "exclude"];

/// Removes `[sweep]` from the layers of a recipe. A later `[sweep]` replaces an earlier one, and
/// arguments override single settings.
pub(super) fn take(
    layers: &mut [Layer],
    arguments: Table,
    for_tune: &Table,
    problems: &mut Vec<Problem>,
) -> Option<Sweep> {
    let mut found = None;
    for layer in layers.iter_mut() {
        if let Some(entry) = layer.table.remove("sweep") {
            found = Some((entry, layer.source.clone()));
        }
    }
    let (mut entry, source) = match (found, arguments.is_empty()) {
        (Some(found), _) => found,
        (None, true) => return None,
        (None, false) => {
            let origin = arguments.iter().next().map(|entry| entry.key_origin.clone()).unwrap_or_default();
            let node = Node { value: Value::Table(Table::default()), origin: origin.clone() };
            (Entry { key: "sweep".into(), key_origin: origin, node }, layers.last()?.source.clone())
        }
    };
    if let Value::Table(table) = &mut entry.node.value {
        arguments.into_iter().for_each(|entry| table.insert(entry));
    }
    let mut reader = SweepReader { source, for_tune, problems };
    Some(reader.sweep(entry))
}

struct SweepReader<'p> {
    source: Arc<Source>,
    /// Settings from the command line for the searches of methods.
    for_tune: &'p Table,
    problems: &'p mut Vec<Problem>,
}

impl SweepReader<'_> {
    fn sweep(&mut self, entry: Entry) -> Sweep {
        let mut sweep = Sweep { origin: entry.key_origin.clone(), ..Sweep::default() };
        let Value::Table(table) = entry.node.value else {
            self.wrong(&entry.node.origin, "sweep", "must be a table");
            return sweep;
        };
        let mut weights = Vec::new();
        for setting in table {
            match setting.key.as_str() {
                "weights" => weights = self.list(setting, Self::weight_scheme),
                "methods" => sweep.methods = self.list(setting, Self::method),
                "cases" => sweep.cases = self.list(setting, |reader, node| reader.table(node, "sweep.cases")),
                "seeds" => sweep.seeds = self.seeds(setting),
                "grid" => sweep.axes.extend(grid::grid(setting, "sweep.grid", self.problems)),
                "zip" => sweep.axes.extend(grid::zip(setting, "sweep.zip", self.problems)),
                "exclude" => {
                    sweep.exclude = self.list(setting, |reader, node| Exclusion::read(node, reader.problems));
                }
                other => {
                    let help = suggest::help(other, &SETTINGS, "`[sweep]` has:");
                    let problem = Problem::new(&setting.key_origin, format!("`sweep` has no setting `{other}`"));
                    self.problems.push(Problem { help, ..problem.at(format!("sweep.{other}")) });
                }
            }
        }
        grid::refuse_overlaps(&sweep.axes, "sweep", self.problems);
        self.refuse_duplicates(&sweep.methods, "methods");
        self.refuse_duplicates(&weights, "weights");
        if !weights.is_empty() {
            sweep.methods = combined(&sweep.methods, &weights);
        }
        self.refuse_duplicates(&sweep.cases, "cases");
        self.refuse_equal_seeds(&sweep.seeds);
        sweep
    }

    fn list<T>(&mut self, setting: Entry, read: impl Fn(&mut Self, Node) -> Option<T>) -> Vec<T> {
        let path = format!("sweep.{}", setting.key);
        match setting.node.value {
            Value::Array(nodes) if !nodes.is_empty() => nodes.into_iter().filter_map(|node| read(self, node)).collect(),
            Value::Array(_) => {
                self.wrong(&setting.node.origin, &path, "is empty; remove it or list at least one entry");
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
        let source = node.origin.place().map_or(&self.source, |place| &place.source);
        let path = files::named_in(source, name);
        match files::layers(&path) {
            Ok(mut layers) => {
                let mut layer = layers.pop()?;
                let name = layer.table.get_str("name").map_or_else(|| files::stem(&path), str::to_string);
                layer.table.remove("name");
                self.variation(name, layer, node.origin, "sweep.methods")
            }
            Err(problems) => {
                self.wrong(&node.origin, "sweep.methods", "names a recipe that cannot be read");
                self.problems.extend(problems.iter().cloned());
                None
            }
        }
    }

    /// A weight scheme, by its name or as a `[weights]` table.
    fn weight_scheme(&mut self, node: Node) -> Option<Variation> {
        let origin = node.origin.clone();
        let scheme = match node.value {
            Value::String(_) => table_of("name", node),
            Value::Table(_) => node,
            _ => {
                let what = "must contain weight schemes such as `\"knn\"` or `{ name = \"knn\", k = 5 }`";
                self.wrong(&origin, "sweep.weights", what);
                return None;
            }
        };
        let name = match scheme.find("name").map(|entry| &entry.node.value) {
            Some(Value::String(name)) => Some(name.clone()),
            _ => None,
        };
        let Some(name) = name else {
            self.wrong(&origin, "sweep.weights", "has an entry without the `name` of a weight scheme");
            return None;
        };
        let Value::Table(table) = table_of("weights", scheme).value else { return None };
        Some(Variation { name, layer: Layer { source: self.source.clone(), table }, origin, tune: None })
    }

    /// A named variation whose settings are in the sweep itself.
    fn table(&mut self, node: Node, path: &str) -> Option<Variation> {
        let origin = node.origin;
        let Value::Table(mut table) = node.value else {
            self.wrong(&origin, path, "must contain tables such as `{ name = \"clean\", noise.name = \"none\" }`");
            return None;
        };
        let Some(name) = table.get_str("name").map(str::to_string) else {
            self.wrong(&origin, path, "has an entry without a `name`, which result tables need");
            return None;
        };
        table.remove("name");
        self.variation(name, Layer { source: self.source.clone(), table }, origin, path)
    }

    fn variation(&mut self, name: String, mut layer: Layer, origin: Origin, path: &str) -> Option<Variation> {
        if let Some(entry) = layer.table.remove("sweep") {
            let problem = Problem::new(&entry.key_origin, format!("`{name}` in `{path}` contains a `[sweep]`"));
            self.problems.push(problem.at("sweep").help("sweeps cannot be nested"));
            return None;
        }
        let tune = match layer.table.remove("tune") {
            Some(entry) if path == "sweep.cases" => {
                let problem = Problem::new(&entry.key_origin, format!("case `{name}` contains a `tune` table"));
                self.problems.push(problem.at("tune").help("move it to the recipe or to a method"));
                None
            }
            entry => entry.and_then(|entry| Tune::read(entry, self.for_tune, self.problems)),
        };
        Some(Variation { name, layer, origin, tune })
    }

    /// A list, or a number N for the seeds 0 to N-1.
    fn seeds(&mut self, setting: Entry) -> Vec<(u64, Origin)> {
        let origin = setting.node.origin.clone();
        match setting.node.value {
            Value::Integer(count) if (1..=MAX_SEEDS).contains(&count) => {
                (0..count).filter_map(|seed| Some((u64::try_from(seed).ok()?, origin.clone()))).collect()
            }
            Value::Array(_) => self.list(setting, Self::seed),
            _ => {
                self.wrong(&origin, "sweep.seeds", "must be a list of seeds, or the number of seeds, at least 1");
                Vec::new()
            }
        }
    }

    fn seed(&mut self, node: Node) -> Option<(u64, Origin)> {
        let seed = match node.value {
            Value::Integer(seed) => u64::try_from(seed).ok(),
            _ => None,
        };
        if seed.is_none() {
            self.wrong(&node.origin, "sweep.seeds", "must contain whole numbers, at least 0");
        }
        Some((seed?, node.origin))
    }

    fn refuse_equal_seeds(&mut self, seeds: &[(u64, Origin)]) {
        for (index, (seed, origin)) in seeds.iter().enumerate() {
            if seeds[..index].iter().any(|(other, _)| other == seed) {
                let problem = Problem::new(origin, format!("`sweep.seeds` has {seed} twice")).at("sweep.seeds");
                self.problems.push(problem.label("duplicate"));
            }
        }
    }

    fn refuse_duplicates(&mut self, all: &[Variation], which: &str) {
        for (index, one) in all.iter().enumerate() {
            if all[..index].iter().any(|other| other.name == one.name) {
                let message = format!("`sweep.{which}` has two entries named `{}`", one.name);
                let problem = Problem::new(&one.origin, message).at(format!("sweep.{which}")).label("duplicate");
                self.problems.push(problem.help("rename or remove one of them"));
            }
        }
    }

    fn wrong(&mut self, origin: &Origin, path: &str, what: &str) {
        self.problems.push(Problem::new(origin, format!("`{path}` {what}")).at(path));
    }
}

/// Every method with every weight scheme, which replaces the method's own. Methods without weights keep
/// their names.
fn combined(methods: &[Variation], weights: &[Variation]) -> Vec<Variation> {
    if methods.is_empty() {
        return weights.to_vec();
    }
    let mut all = Vec::new();
    for method in methods {
        for scheme in weights {
            let mut one = method.clone();
            if scheme.name != "uniform" {
                one.name = format!("{}+{}", method.name, scheme.name);
            }
            scheme.layer.table.iter().cloned().for_each(|entry| one.layer.table.insert(entry));
            all.push(one);
        }
    }
    all
}

/// A table with one entry, in the place of its value.
fn table_of(key: &str, node: Node) -> Node {
    let origin = node.origin.clone();
    let mut table = Table::default();
    table.insert(Entry { key: key.into(), key_origin: origin.clone(), node });
    Node { value: Value::Table(table), origin }
}
