//! `exclude`: combinations not to run.

use crate::grid::{PathSetting, named, value_text};
use crate::problems::Problem;
use crate::source::Origin;
use crate::suggest;
use crate::tree::{Node, Table, Value};
use serde_json::Value as Json;
use std::cell::Cell;
use std::collections::BTreeSet;

/// Maximum number of values shown in a message about an exclusion that matches nothing.
const SHOWN: usize = 8;

/// Excludes runs that match all of its conditions.
#[derive(Debug)]
pub(crate) struct Exclusion {
    conditions: Vec<PathSetting>,
    origin: Origin,
    used: Cell<bool>,
}

/// A run that conditions are matched against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// The method's name.
    pub method: &'a str,
    /// The names of its case: as in `sweep.cases`, and including the values of the grid.
    pub cases: [&'a str; 2],
    /// The seed.
    pub seed: u64,
    /// The recipe with its defaults.
    pub tree: &'a Node,
}

impl Exclusion {
    /// Reads one entry of `sweep.exclude`.
    pub(super) fn read(node: Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let example = "for example `{ method = \"snr\", noise.ratio = 0.3 }`";
        let origin = node.origin.clone();
        let conditions = match node.value {
            Value::Table(table) => named(table, Table::is_empty),
            _ => {
                let message = format!("`sweep.exclude` must contain tables of conditions, not {}", node.kind());
                problems.push(Problem::new(&origin, message).at("sweep.exclude").help(example));
                return None;
            }
        };
        if conditions.is_empty() {
            let problem = Problem::new(&origin, "this exclusion has no conditions and would exclude every run");
            problems.push(problem.at("sweep.exclude").label("matches every run").help(example));
            return None;
        }
        Some(Self { conditions, origin, used: Cell::new(false) })
    }

    /// Whether the run is excluded.
    pub(super) fn fits(&self, run: &Candidate) -> bool {
        let fits = self.conditions.iter().all(|condition| {
            actual(run, &condition.path()).iter().any(|actual| matches(&condition.node.to_json(), actual))
        });
        if fits {
            self.used.set(true);
        }
        fits
    }

    /// The problem with an exclusion that excluded nothing.
    pub(super) fn complaint(&self, runs: &[Candidate]) -> Option<Problem> {
        if self.used.get() {
            return None;
        }
        for condition in &self.conditions {
            let path = condition.path();
            let mut values: Vec<Json> = Vec::new();
            for value in runs.iter().flat_map(|run| actual(run, &path)) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            if values.is_empty() {
                return Some(unknown(condition, &path, runs));
            }
            if !values.iter().any(|value| matches(&condition.node.to_json(), value)) {
                let message =
                    format!("this exclusion matches no run: `{path}` is never `{}`", value_text(&condition.node));
                let shown: Vec<_> = values.iter().take(SHOWN).map(text).collect();
                let more = if values.len() > SHOWN { ", …" } else { "" };
                let help = format!("values of `{path}`: {}{more}", suggest::quoted(shown.iter().map(String::as_str)));
                let problem = Problem::new(&condition.node.origin, message).at("sweep.exclude");
                return Some(problem.label("no run has this value").help(help));
            }
        }
        let message = "this exclusion matches no run: no run meets all of its conditions";
        Some(Problem::new(&self.origin, message).at("sweep.exclude").help("remove it, or correct its conditions"))
    }
}

fn unknown(condition: &PathSetting, path: &str, runs: &[Candidate]) -> Problem {
    let mut paths = BTreeSet::from(["method".to_string(), "case".into(), "seed".into()]);
    for run in runs {
        leaves(run.tree, "", &mut paths);
    }
    let problem =
        Problem::new(&condition.origin(), format!("this exclusion matches no run: no run has a setting `{path}`"))
            .at("sweep.exclude")
            .label("no such setting");
    match suggest::nearest(path, paths.iter().map(String::as_str)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("use `method`, `case`, `seed` or a setting of the recipe"),
    }
}

fn leaves(node: &Node, path: &str, found: &mut BTreeSet<String>) {
    match &node.value {
        Value::Table(table) => table.iter().for_each(|entry| {
            let below = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
            leaves(&entry.node, &below, found);
        }),
        _ => {
            found.insert(path.to_string());
        }
    }
}

/// The run's values for a condition; none if it has no such setting.
fn actual(run: &Candidate, path: &str) -> Vec<Json> {
    match path {
        "method" => vec![run.method.into()],
        "case" => run.cases.iter().filter(|case| !case.is_empty()).map(|case| Json::from(*case)).collect(),
        "seed" => vec![run.seed.into()],
        _ => run.tree.find(path).map(|entry| entry.node.to_json()).into_iter().collect(),
    }
}

/// A list matches any of its values, unless the setting itself is a list.
fn matches(wanted: &Json, actual: &Json) -> bool {
    match (wanted, actual) {
        (Json::Array(any), actual) if !actual.is_array() => any.iter().any(|wanted| matches(wanted, actual)),
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => wanted == actual,
    }
}

fn text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn exclusion(json: &Json) -> Exclusion {
        let mut problems = Vec::new();
        let read = Exclusion::read(Node::from_default(json).unwrap(), &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        read.unwrap()
    }

    #[test]
    fn all_conditions_must_hold_and_lists_match_any_value() {
        let tree = Node::from_default(&json!({ "noise": { "ratio": 0.3, "seed": 1 } })).unwrap();
        let run = Candidate { method: "ms", cases: ["noisy", "noisy, ratio=0.3"], seed: 4, tree: &tree };
        for fitting in [
            json!({ "method": "ms" }),
            json!({ "method": ["snr", "ms"], "noise": { "ratio": 0.3 } }),
            json!({ "noise.seed": 1.0, "case": "noisy" }),
            json!({ "seed": [3, 4], "case": "noisy, ratio=0.3" }),
        ] {
            assert!(exclusion(&fitting).fits(&run), "{fitting}");
        }
        for other in [json!({ "method": "ms", "noise.ratio": 0.2 }), json!({ "seed": 3 }), json!({ "noise.x": 1 })] {
            assert!(!exclusion(&other).fits(&run), "{other}");
        }
    }
}
