//! The search space: a grid, or random values in ranges.

use super::range::SearchRange;
use crate::grid::{self, GridPoint, PathSetting, SweepAxis, named, short_names};
use crate::problems::{Problem, Problems};
use crate::source::Origin;
use crate::tree::{Entry, Node, Table, Value};
use std::collections::HashSet;

/// Maximum number of trials of one search; more are probably a mistake.
const MAX_TRIALS: usize = 10_000;

/// The search space.
#[derive(Debug, Clone)]
pub(super) enum SearchSpace {
    /// All of these combinations.
    Grid(Vec<GridPoint>),
    /// This many draws from these ranges.
    Random { searched: Vec<(PathSetting, SearchRange)>, trials: u64, seed: u64 },
}

impl SearchSpace {
    /// Removes the search space from `[tune]`.
    pub(super) fn read(table: &mut Table, origin: &Origin, problems: &mut Vec<Problem>) -> Option<Self> {
        let trials = table.get("trials").map(|entry| entry.key_origin.clone());
        let (count, seed) = (number(table, "trials", problems), number(table, "seed", problems));
        match (table.remove("grid"), table.remove("random")) {
            (Some(grid), None) => {
                if let Some(origin) = trials {
                    let problem = Problem::new(&origin, "`tune.trials` is for `random`; a grid runs all combinations");
                    problems.push(problem.at("tune.trials").help("remove it"));
                }
                let axes: Vec<SweepAxis> = grid::grid(grid, "tune.grid", problems);
                grid::refuse_overlaps(&axes, "tune.grid", problems);
                if grid::count(&axes) > MAX_TRIALS {
                    let message = format!(
                        "`tune.grid` has {} combinations; at most {MAX_TRIALS} are allowed",
                        grid::count(&axes)
                    );
                    problems.push(Problem::new(origin, message).at("tune.grid").help("use `random` instead"));
                    return None;
                }
                Some(Self::Grid(grid::points(&axes)))
            }
            (None, Some(random)) => {
                let searched = ranges(random, problems);
                match count {
                    Some(trials) if trials > 0 && trials <= MAX_TRIALS as u64 => {
                        Some(Self::Random { searched, trials, seed: seed.unwrap_or(0) })
                    }
                    _ => {
                        let message = format!("`tune.random` needs `trials`, from 1 to {MAX_TRIALS}");
                        problems
                            .push(Problem::new(origin, message).at("tune.trials").help("for example `trials = 20`"));
                        None
                    }
                }
            }
            (grid, _) => {
                let what =
                    if grid.is_some() { "has both `grid` and `random`" } else { "has neither `grid` nor `random`" };
                let help = "for example `grid = { loss.eta = [0.5, 1, 2] }`, or `random = { optimizer.lr = { min = 1e-4, \
                            max = 1e-2, log = true } }` with `trials = 20`";
                problems.push(Problem::new(origin, format!("`[tune]` {what}")).at("tune").help(help));
                None
            }
        }
    }

    /// Settings with a whole number for each range: a value that is still a whole number after
    /// validation belongs to an integer setting.
    pub(super) fn probe(&self) -> Table {
        let mut table = Table::default();
        match self {
            SearchSpace::Grid(points) => table.clone_from(&points[0].table),
            SearchSpace::Random { searched, .. } => {
                for (named, range) in searched {
                    let node = match range {
                        SearchRange::Choices(choices) => choices[0].clone(),
                        SearchRange::Between { low, .. } => {
                            Node { value: Value::Integer(low.ceil() as i128), origin: named.node.origin.clone() }
                        }
                    };
                    named.put(&node, &mut table);
                }
            }
        }
        table
    }

    /// The combinations to try, given the validated recipe with the probe's settings.
    pub(super) fn candidates(&self, probed: &Node) -> Result<Vec<GridPoint>, Problems> {
        let (searched, trials, seed) = match self {
            SearchSpace::Grid(points) => return Ok(points.clone()),
            SearchSpace::Random { searched, trials, seed } => (searched, *trials, *seed),
        };
        let is_whole = |path: &str| probed.find(path).is_some_and(|e| matches!(e.node.value, Value::Integer(_)));
        let empty = searched.iter().filter(|(named, range)| is_whole(&named.path()) && !range.has_whole_number());
        let problem = |(named, _): &(PathSetting, SearchRange)| {
            let (path, origin) = (named.path(), &named.node.origin);
            let message = format!("`tune.random.{path}` contains no whole number, but `{path}` must be one");
            Problem::new(origin, message).at(format!("tune.random.{path}"))
        };
        Problems::check(empty.map(problem).collect())?;
        let paths: Vec<_> = searched.iter().map(|(named, _)| named.path()).collect();
        let names = short_names(&paths);
        let mut points: Vec<GridPoint> = Vec::new();
        let mut seen = HashSet::new();
        for trial in 0..trials {
            let mut point = GridPoint::default();
            for ((named, range), (path, name)) in searched.iter().zip(paths.iter().zip(&names)) {
                let value = range.draw(seed, path, trial, is_whole(path), &named.node.origin);
                named.put(&value, &mut point.table);
                let separator = if point.label.is_empty() { "" } else { ", " };
                point.label.push_str(&format!("{separator}{name}={}", range.text(&value)));
                point.settings.push((path.clone(), value));
            }
            // With few choices, the same combination may be drawn twice.
            if seen.insert(point.label.clone()) {
                points.push(point);
            }
        }
        Ok(points)
    }
}

fn ranges(entry: Entry, problems: &mut Vec<Problem>) -> Vec<(PathSetting, SearchRange)> {
    let Value::Table(table) = entry.node.value else {
        let message = format!("`tune.random` must be a table of settings with their ranges, not {}", entry.node.kind());
        problems.push(Problem::new(&entry.node.origin, message).at("tune.random"));
        return Vec::new();
    };
    // `{ min = 1, max = 5 }` is a range; `lambda = { max = { … } }` contains one.
    let is_range = |table: &Table| {
        table.iter().any(|entry| entry.key == "min" || entry.key == "max")
            && table.iter().all(|entry| entry.node.as_table().is_none())
    };
    let all = named(table, is_range);
    if all.is_empty() {
        problems.push(Problem::new(&entry.node.origin, "`tune.random` names no setting").at("tune.random"));
    }
    all.into_iter().filter_map(|named| Some((named.clone(), SearchRange::read(&named, problems)?))).collect()
}

/// Removes a setting that must be a whole number.
fn number(table: &mut Table, key: &str, problems: &mut Vec<Problem>) -> Option<u64> {
    let entry = table.remove(key)?;
    let value = match entry.node.value {
        Value::Integer(value) => u64::try_from(value).ok(),
        _ => None,
    };
    if value.is_none() {
        let message = format!("`tune.{key}` must be a whole number, at least 0");
        problems.push(Problem::new(&entry.node.origin, message).at(format!("tune.{key}")));
    }
    value
}
