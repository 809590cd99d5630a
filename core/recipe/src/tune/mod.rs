//! `[tune]`: search for settings before the final runs.
//!
//! ```toml
//! [tune]
//! grid = { loss.eta = [0.5, 1, 2, 3, 4] }
//! ```
//!
//! ```toml
//! [tune]
//! random = { weights.lambda.max = { min = 1, max = 5 }, optimizer.lr = { min = 1e-4, max = 1e-2, log = true } }
//! trials = 12
//! ```
//!
//! Trials are evaluated on validation classes held out from training, never on test classes.

mod range;
mod space;

use crate::files::Layer;
use crate::grid::GridPoint;
use crate::plan::{Search, SweepRun, Trial, seed_node};
use crate::problems::{Problem, Problems};
use crate::resolved::Resolved;
use crate::settings::{ClusterWhen, Recipe};
use crate::source::Origin;
use crate::suggest;
use crate::tree::{Entry, Node, Table, Value};
use curricle_record::Metric;
use space::SearchSpace;

const SETTINGS: [&str; 6] = ["grid", "random", "trials", "seed", "metric", "seeds"];

/// The `[tune]` table of a recipe.
#[derive(Debug, Clone)]
pub(crate) struct Tune {
    space: SearchSpace,
    metric: (String, Origin),
    all_seeds: bool,
}

/// Removes `[tune]` from the layers of a recipe. A later `[tune]` replaces an earlier one, and arguments
/// override single settings; without a `[tune]`, they start a search only if `alone`.
pub(super) fn take(layers: &mut [Layer], arguments: &Table, alone: bool, problems: &mut Vec<Problem>) -> Option<Tune> {
    let found = layers.iter_mut().filter_map(|layer| layer.table.remove("tune")).last();
    let entry = match found {
        Some(entry) => entry,
        None if arguments.is_empty() || !alone => return None,
        None => {
            let origin = arguments.iter().next().map(|entry| entry.key_origin.clone()).unwrap_or_default();
            let node = Node { value: Value::Table(Table::default()), origin: origin.clone() };
            Entry { key: "tune".into(), key_origin: origin, node }
        }
    };
    Tune::read(entry, arguments, problems)
}

impl Tune {
    /// Reads `[tune]`, overridden by settings from the command line.
    pub(crate) fn read(entry: Entry, arguments: &Table, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let Value::Table(mut table) = entry.node.value else {
            problems.push(Problem::new(&entry.node.origin, "`tune` must be a table").at("tune"));
            return None;
        };
        arguments.iter().for_each(|entry| table.insert(entry.clone()));
        for other in table.iter().filter(|entry| !SETTINGS.contains(&entry.key.as_str())) {
            let help = suggest::help(&other.key, &SETTINGS, "`[tune]` has:");
            let problem = Problem::new(&other.key_origin, format!("`tune` has no setting `{}`", other.key));
            problems.push(Problem { help, ..problem.at(format!("tune.{}", other.key)) });
        }
        let metric = text(&mut table, "metric", "recall@1", problems);
        let all_seeds = match text(&mut table, "seeds", "first", problems) {
            (word, _) if word == "all" => true,
            (word, _) if word == "first" => false,
            (word, origin) => {
                let problem = Problem::new(&origin, format!("`tune.seeds` cannot be `{word}`")).at("tune.seeds");
                problems.push(problem.help("`first` searches with the first seed only, `all` with every seed"));
                false
            }
        };
        let space = SearchSpace::read(&mut table, &entry.key_origin, problems);
        if problems.len() > before {
            return None;
        }
        Some(Self { space: space?, metric, all_seeds })
    }

    /// Settings with a whole number for each range: a value that is still a whole number after
    /// validation belongs to an integer setting.
    pub(super) fn probe(&self) -> Table {
        self.space.probe()
    }

    /// The combinations to try, given the validated recipe with the probe's settings.
    pub(super) fn candidates(&self, probed: &Node) -> Result<Vec<GridPoint>, Problems> {
        self.space.candidates(probed)
    }

    /// The search over resolved candidates.
    pub(super) fn search(
        &self,
        method: String,
        case: Option<String>,
        candidates: Vec<(GridPoint, Resolved)>,
        seeds: &[Option<(u64, Origin)>],
    ) -> Result<Search, Problems> {
        let (metric, origin) = &self.metric;
        let seeds = if self.all_seeds { seeds } else { &seeds[..seeds.len().min(1)] };
        let mut trials = Vec::new();
        for (point, resolved) in candidates {
            refuse_unmeasured(metric, origin, &resolved.recipe)?;
            let case =
                [case.as_deref(), Some(point.label.as_str())].into_iter().flatten().collect::<Vec<_>>().join(", ");
            let mut runs = Vec::new();
            for seed in seeds {
                let name = format!("{}-tune", resolved.recipe.name);
                let mut changes = vec![("name", word(&name)), ("case", word(&case)), ("eval.on", word("validation"))];
                changes.extend(seed.as_ref().map(|(seed, origin)| ("seed", seed_node(*seed, origin))));
                let resolved = resolved.with(changes)?;
                runs.push(SweepRun { method: method.clone(), case: Some(case.clone()), resolved, search: None });
            }
            let settings = point.settings.iter().map(|(path, node)| (path.clone(), node.to_json())).collect();
            trials.push(Trial { label: point.label, settings, resolved, runs });
        }
        Ok(Search { method, case, metric: metric.clone(), trials })
    }
}

fn word(text: &str) -> Node {
    Node { value: Value::String(text.into()), origin: Origin::Default }
}

/// Removes a setting that must be a string, or returns its default.
fn text(table: &mut Table, key: &str, default: &str, problems: &mut Vec<Problem>) -> (String, Origin) {
    match table.remove(key).map(|entry| entry.node) {
        None => (default.into(), Origin::Default),
        Some(Node { value: Value::String(text), origin }) => (text, origin),
        Some(node) => {
            let message = format!("`tune.{key}` must be a string, not {}", node.kind());
            problems.push(Problem::new(&node.origin, message).at(format!("tune.{key}")));
            (default.into(), node.origin)
        }
    }
}

/// Refuses a metric that the runs do not measure.
fn refuse_unmeasured(metric: &str, origin: &Origin, recipe: &Recipe) -> Result<(), Problems> {
    let mut measured: Vec<_> = recipe.eval.recall_at.iter().map(|k| Metric::Recall(*k).name()).collect();
    measured.extend([Metric::RPrecision.name(), Metric::MapAtR.name()]);
    if recipe.eval.cluster != ClusterWhen::Never {
        measured.extend([Metric::Nmi.name(), Metric::Ami.name()]);
    }
    if measured.iter().any(|name| name == metric) {
        return Ok(());
    }
    let names: Vec<_> = measured.iter().map(String::as_str).collect();
    let problem = Problem::new(origin, format!("`tune.metric` is `{metric}`, which the runs do not measure"));
    let help = suggest::help(metric, &names, "available:");
    Err(Problem { help, ..problem.at("tune.metric").label("not measured") }.into())
}

#[cfg(test)]
mod tests;
