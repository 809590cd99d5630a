//! `[tune]`: settings that are searched before the final runs.
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
//! Trials are evaluated on a validation part of the training classes, never on test classes.

use super::files::Layer;
use super::problems::{Problem, Problems};
use super::resolve::Resolved;
use super::settings::{ClusterWhen, Recipe};
use super::source::Origin;
use super::suggest;
use super::sweep::{self, Axis, Named, Point, SweepRun, named, short_names, value_text};
use super::tree::{Entry, Node, Table, Value};
use crate::Result;
use crate::eval::Metric;
use curricle_sdk::rng::stream;
use rand::RngExt;
use serde_json::Value as Json;
use std::collections::HashSet;

/// Trials of one search; more are a slip.
const MOST_TRIALS: usize = 10_000;

const SETTINGS: [&str; 6] = ["grid", "random", "trials", "seed", "metric", "seeds"];

/// What a recipe's `[tune]` asks for.
#[derive(Debug, Clone)]
pub(crate) struct Tune {
    space: Space,
    metric: (String, Origin),
    all_seeds: bool,
}

#[derive(Debug, Clone)]
enum Space {
    Grid(Vec<Point>),
    Random { searched: Vec<(Named, Range)>, trials: u64, seed: u64 },
}

#[derive(Debug, Clone)]
enum Range {
    Choices(Vec<Node>),
    Between { low: f64, high: f64, log: bool },
}

/// The trials from which the settings of some runs are chosen.
#[derive(Debug, Clone)]
pub struct Search {
    /// The method's name.
    pub method: String,
    /// What the circumstances are called, if there are several.
    pub case: Option<String>,
    /// The metric that decides, e.g. `recall@1`; larger is better.
    pub metric: String,
    /// What is tried.
    pub trials: Vec<Trial>,
}

/// One combination of searched settings.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What it is called, e.g. `eta=2`.
    pub label: String,
    /// The searched settings by dotted path.
    pub settings: Vec<(String, Json)>,
    /// The recipe of a final run with these settings.
    pub resolved: Resolved,
    /// The runs that try the settings on the validation classes, one for each seed.
    pub runs: Vec<SweepRun>,
}

/// Takes `[tune]` out of the layers of a recipe. A later file's replaces an earlier one's, and
/// settings from the command line go over both; alone they make a search only if allowed.
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
    /// Reads `[tune]`, with settings from the command line over it.
    pub fn read(entry: Entry, arguments: &Table, problems: &mut Vec<Problem>) -> Option<Self> {
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
                problems.push(problem.help("`first` searches with the first seed alone, `all` with every seed"));
                false
            }
        };
        let space = space(&mut table, &entry.key_origin, problems);
        if problems.len() > before {
            return None;
        }
        Some(Self { space: space?, metric, all_seeds })
    }

    /// Settings with whole numbers for all ranges: what comes out of the schema a whole number
    /// again is a setting that takes nothing else.
    pub(super) fn probe(&self) -> Table {
        let mut table = Table::default();
        match &self.space {
            Space::Grid(points) => table.clone_from(&points[0].table),
            Space::Random { searched, .. } => {
                for (named, range) in searched {
                    let node = match range {
                        Range::Choices(choices) => choices[0].clone(),
                        Range::Between { low, .. } => {
                            Node { value: Value::Integer(low.ceil() as i128), origin: named.node.origin.clone() }
                        }
                    };
                    named.put(&node, &mut table);
                }
            }
        }
        table
    }

    /// What is tried, given the recipe with the probe's settings.
    pub(super) fn candidates(&self, probed: &Node) -> Vec<Point> {
        let (searched, trials, seed) = match &self.space {
            Space::Grid(points) => return points.clone(),
            Space::Random { searched, trials, seed } => (searched, *trials, *seed),
        };
        let paths: Vec<_> = searched.iter().map(|(named, _)| named.path()).collect();
        let names = short_names(&paths);
        let mut points: Vec<Point> = Vec::new();
        let mut seen = HashSet::new();
        for trial in 0..trials {
            let mut point = Point::default();
            for ((named, range), (path, name)) in searched.iter().zip(paths.iter().zip(&names)) {
                let whole = probed.find(path).is_some_and(|entry| matches!(entry.node.value, Value::Integer(_)));
                let value = range.draw(seed, path, trial, whole, &named.node.origin);
                named.put(&value, &mut point.table);
                let separator = if point.label.is_empty() { "" } else { ", " };
                point.label.push_str(&format!("{separator}{name}={}", value_text(&value)));
                point.settings.push((path.clone(), value));
            }
            // Few choices are soon drawn twice, and a run that is known says nothing new.
            if seen.insert(point.label.clone()) {
                points.push(point);
            }
        }
        points
    }

    /// The search over candidates that are resolved already.
    pub(super) fn search(
        &self,
        method: String,
        case: Option<String>,
        candidates: Vec<(Point, Resolved)>,
        seeds: &[Option<(u64, Origin)>],
    ) -> Result<Search> {
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
                changes.extend(seed.as_ref().map(|(seed, origin)| {
                    ("seed", Node { value: Value::Integer((*seed).into()), origin: origin.clone() })
                }));
                let resolved = resolved.with(changes)?;
                runs.push(SweepRun { method: method.clone(), case: Some(case.clone()), resolved, search: None });
            }
            let settings = point.settings.iter().map(|(path, node)| (path.clone(), node.to_json())).collect();
            trials.push(Trial { label: point.label, settings, resolved, runs });
        }
        Ok(Search { method, case, metric: metric.clone(), trials })
    }
}

impl Range {
    /// The value of a trial. Every setting has a stream of its own: another one beside it leaves
    /// its values as they are.
    fn draw(&self, seed: u64, path: &str, trial: u64, whole: bool, origin: &Origin) -> Node {
        let mut rng = stream(seed, &format!("tune {path}"), trial, 0);
        match self {
            Range::Choices(choices) => choices[rng.random_range(0..choices.len())].clone(),
            Range::Between { low, high, log } => {
                let share: f64 = rng.random();
                let between = |low: f64, high: f64| match log {
                    true => (low.ln() + share * (high.ln() - low.ln())).exp(),
                    false => low + share * (high - low),
                };
                let value = match whole {
                    // Half a unit more on both sides gives the ends the same share as the others.
                    true => {
                        let (low, high) = (low.ceil(), high.floor());
                        let bottom = if *log { (low - 0.5).max(0.5 * low) } else { low - 0.5 };
                        let drawn = between(bottom, high + 0.5).round();
                        Value::Integer(drawn.clamp(low, high.max(low)) as i128)
                    }
                    false => Value::Float(readable(between(*low, *high)).clamp(*low, *high)),
                };
                Node { value, origin: origin.clone() }
            }
        }
    }
}

/// Four significant digits: nobody wants to read or type more of a random number.
fn readable(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn word(text: &str) -> Node {
    Node { value: Value::String(text.into()), origin: Origin::Default }
}

/// Takes a setting that must be a string, or its default.
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

/// Takes a setting that must be a whole number.
fn number(table: &mut Table, key: &str, problems: &mut Vec<Problem>) -> Option<u64> {
    let entry = table.remove(key)?;
    let value = match entry.node.value {
        Value::Integer(value) => u64::try_from(value).ok(),
        _ => None,
    };
    if value.is_none() {
        let message = format!("`tune.{key}` must be a whole number from 0");
        problems.push(Problem::new(&entry.node.origin, message).at(format!("tune.{key}")));
    }
    value
}

fn space(table: &mut Table, origin: &Origin, problems: &mut Vec<Problem>) -> Option<Space> {
    let trials = table.get("trials").map(|entry| entry.key_origin.clone());
    let (count, seed) = (number(table, "trials", problems), number(table, "seed", problems));
    match (table.remove("grid"), table.remove("random")) {
        (Some(grid), None) => {
            if let Some(origin) = trials {
                let problem = Problem::new(&origin, "`tune.trials` is for `random`; a grid has as many as it has");
                problems.push(problem.at("tune.trials").help("leave it out"));
            }
            let axes: Vec<Axis> = sweep::grid(grid, "tune.grid", problems);
            sweep::refuse_overlaps(&axes, "tune.grid", problems);
            if sweep::count(&axes) > MOST_TRIALS {
                let message =
                    format!("`tune.grid` has {} combinations; at most {MOST_TRIALS} are possible", sweep::count(&axes));
                problems.push(Problem::new(origin, message).at("tune.grid").help("use `random` instead"));
                return None;
            }
            Some(Space::Grid(sweep::points(&axes)))
        }
        (None, Some(random)) => {
            let searched = ranges(random, problems);
            match count {
                Some(trials) if trials > 0 && trials <= MOST_TRIALS as u64 => {
                    Some(Space::Random { searched, trials, seed: seed.unwrap_or(0) })
                }
                _ => {
                    let message = format!("`tune.random` needs `trials`, from 1 to {MOST_TRIALS}");
                    problems.push(Problem::new(origin, message).at("tune.trials").help("for example `trials = 20`"));
                    None
                }
            }
        }
        (grid, _) => {
            let what = if grid.is_some() { "has both `grid` and `random`" } else { "does not say what to search" };
            let help = "for example `grid = { loss.eta = [0.5, 1, 2] }`, or `random = { optimizer.lr = { min = 1e-4, \
                        max = 1e-2, log = true } }` with `trials = 20`";
            problems.push(Problem::new(origin, format!("`[tune]` {what}")).at("tune").help(help));
            None
        }
    }
}

fn ranges(entry: Entry, problems: &mut Vec<Problem>) -> Vec<(Named, Range)> {
    let Value::Table(table) = entry.node.value else {
        let message = format!("`tune.random` must be a table of settings with their ranges, not {}", entry.node.kind());
        problems.push(Problem::new(&entry.node.origin, message).at("tune.random"));
        return Vec::new();
    };
    // `{ min = 1, max = 5 }` is a range; `lambda = { max = { … } }` leads on to one.
    let is_range = |table: &Table| {
        table.iter().any(|entry| entry.key == "min" || entry.key == "max")
            && table.iter().all(|entry| entry.node.as_table().is_none())
    };
    let all = named(table, is_range);
    if all.is_empty() {
        problems.push(Problem::new(&entry.node.origin, "`tune.random` names no setting").at("tune.random"));
    }
    all.into_iter().filter_map(|named| Some((named.clone(), range(&named, problems)?))).collect()
}

fn range(named: &Named, problems: &mut Vec<Problem>) -> Option<Range> {
    let path = format!("tune.random.{}", named.path());
    let example = "for example `{ min = 1e-4, max = 1e-2, log = true }`, or a list of choices";
    let mut wrong = |origin: &Origin, what: &str| {
        problems.push(Problem::new(origin, format!("`{path}` {what}")).at(path.as_str()).help(example));
        None
    };
    let table = match &named.node.value {
        Value::Array(choices) if !choices.is_empty() => return Some(Range::Choices(choices.clone())),
        Value::Table(table) => table,
        _ => return wrong(&named.node.origin, "must be a range or a list of choices"),
    };
    if let Some(other) = table.iter().find(|entry| !["min", "max", "log"].contains(&entry.key.as_str())) {
        return wrong(&other.key_origin, &format!("has no `{}`", other.key));
    }
    let number = |key: &str| match table.get(key).map(|entry| &entry.node.value) {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Float(number)) if number.is_finite() => Some(*number),
        _ => None,
    };
    let log = match table.get("log").map(|entry| &entry.node.value) {
        None => false,
        Some(Value::Boolean(log)) => *log,
        Some(_) => return wrong(&named.node.origin, "must have `true` or `false` for `log`"),
    };
    match (number("min"), number("max")) {
        (Some(low), Some(high)) if low < high && !(log && low <= 0.0) => Some(Range::Between { low, high, log }),
        (Some(low), Some(high)) if low < high => wrong(&named.node.origin, "must have `min` above 0 with `log = true`"),
        (Some(_), Some(_)) => wrong(&named.node.origin, "must have `min` below `max`"),
        _ => wrong(&named.node.origin, "must have numbers for `min` and `max`"),
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
    let help = suggest::help(metric, &names, "they measure:");
    Err(Problem { help, ..problem.at("tune.metric").label("not measured") }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(json: &Json) -> Result<Tune, Vec<Problem>> {
        let node = Node::from_default(json).unwrap();
        let mut problems = Vec::new();
        let entry = Entry { key: "tune".into(), key_origin: Origin::Default, node };
        Tune::read(entry, &Table::default(), &mut problems).ok_or(problems)
    }

    fn values(json: &Json, probed: &Json, path: &str) -> Vec<Json> {
        let points = read(json).unwrap().candidates(&Node::from_default(probed).unwrap());
        let value = |point: &Point| point.settings.iter().find(|(name, _)| name == path).unwrap().1.to_json();
        points.iter().map(value).collect()
    }

    #[test]
    fn random_values_stay_in_their_range_and_depend_on_the_seed_alone() {
        let tune = |seed| json!({ "random": { "a.b": { "min": 1, "max": 5 } }, "trials": 50, "seed": seed });
        let first = values(&tune(0), &json!({ "a": { "b": 1.0 } }), "a.b");
        assert_eq!(first.len(), 50);
        assert!(first.iter().all(|value| (1.0..=5.0).contains(&value.as_f64().unwrap())));
        assert_eq!(first, values(&tune(0), &json!({ "a": { "b": 1.0 } }), "a.b"));
        assert_ne!(first, values(&tune(1), &json!({ "a": { "b": 1.0 } }), "a.b"));
        let beside = json!({ "random": { "a": { "b": { "min": 1, "max": 5 } }, "c": [1, 2] }, "trials": 50 });
        assert_eq!(first, values(&beside, &json!({ "a": { "b": 1.0 }, "c": 1 }), "a.b"), "another setting beside it");
    }

    #[test]
    fn whole_settings_get_whole_numbers_with_equal_shares() {
        let tune = json!({ "random": { "n": { "min": 1, "max": 3 }, "x": { "min": 0, "max": 1 } }, "trials": 3000 });
        let drawn = values(&tune, &json!({ "n": 1, "x": 0.0 }), "n");
        for n in 1..=3 {
            let share = drawn.iter().filter(|value| **value == n).count() as f64 / drawn.len() as f64;
            assert!((share - 1.0 / 3.0).abs() < 0.05, "{n}: {share}");
        }
    }

    #[test]
    fn a_logarithmic_range_has_as_many_small_values_as_large_ones() {
        let tune = json!({ "random": { "lr": { "min": 1e-4, "max": 1e-2, "log": true } }, "trials": 1000 });
        let drawn = values(&tune, &json!({ "lr": 1.0 }), "lr");
        let small = drawn.iter().filter(|value| value.as_f64().unwrap() < 1e-3).count() as f64 / drawn.len() as f64;
        assert!((small - 0.5).abs() < 0.07, "{small}");
        assert_eq!(readable(0.001_234_567), 0.001_235);
    }

    #[test]
    fn slips_are_refused() {
        for (wrong, message) in [
            (json!({}), "does not say what"),
            (json!({ "grid": { "a": [1] }, "random": { "a": [1] } }), "both"),
            (json!({ "random": { "a": [1] } }), "needs `trials`"),
            (json!({ "random": { "a": { "min": 2, "max": 1 } }, "trials": 1 }), "`min` below `max`"),
            (json!({ "random": { "a": { "min": 0, "max": 1, "log": true } }, "trials": 1 }), "above 0"),
            (json!({ "random": { "a": { "min": 0 } }, "trials": 1 }), "numbers for `min` and `max`"),
            (json!({ "grid": { "a": [1] }, "trials": 1 }), "is for `random`"),
            (json!({ "grid": { "a": [1] }, "metrik": "nmi" }), "no setting `metrik`"),
            (json!({ "grid": { "a": [1] }, "seeds": "some" }), "cannot be `some`"),
            (json!({ "grid": { "seed": [1] } }), "cannot be varied"),
        ] {
            let problems = read(&wrong).unwrap_err();
            assert!(problems.iter().any(|p| p.message.contains(message)), "{wrong}: {problems:?}");
        }
    }
}
