//! `grid` and `zip`: settings with several values, and all their combinations.

use super::labels::{distinct_text, short_names, value_text};
use super::paths::{PathSetting, named};
use crate::problems::Problem;
use crate::source::Origin;
use crate::suggest::quoted;
use crate::tree::{Entry, Node, Table, Value};

/// Settings that identify a run and cannot be varied, with the help text.
const RESERVED: [(&str, &str); 7] = [
    ("seed", "list seeds in `sweep.seeds`"),
    ("name", "it names the folder of all runs of the sweep"),
    ("method", "list methods in `sweep.methods`"),
    ("case", "it is derived from the values; list named cases in `sweep.cases`"),
    ("description", "it does not change a run"),
    ("extends", "list recipes in `sweep.methods`"),
    ("plugins", "name the libraries in the recipes of `sweep.methods`"),
];

/// Settings that vary together: one setting of a grid, or all settings of a zip. All have the same
/// number of values.
#[derive(Debug)]
pub(crate) struct SweepAxis {
    settings: Vec<Varied>,
}

#[derive(Debug)]
struct Varied {
    named: PathSetting,
    values: Vec<Node>,
}

/// One combination of values.
#[derive(Debug, Default, Clone)]
pub(crate) struct GridPoint {
    /// Its label, e.g. `ratio=0.2, size=64`; empty if nothing varies.
    pub label: String,
    /// The values as settings of a recipe.
    pub table: Table,
    /// The values by dotted path.
    pub settings: Vec<(String, Node)>,
}

impl SweepAxis {
    fn len(&self) -> usize {
        self.settings.first().map_or(0, |varied| varied.values.len())
    }

    /// Where it was written.
    pub(crate) fn origin(&self) -> Origin {
        self.settings.first().map(|varied| varied.named.origin()).unwrap_or_default()
    }

    fn paths(&self) -> impl Iterator<Item = String> {
        self.settings.iter().map(|varied| varied.named.path())
    }
}

/// Number of combinations, saturating.
pub(crate) fn count(axes: &[SweepAxis]) -> usize {
    axes.iter().fold(1, |product: usize, axis| product.saturating_mul(axis.len()))
}

/// All combinations; the last axis varies fastest. Without axes, one empty point.
pub(crate) fn points(axes: &[SweepAxis]) -> Vec<GridPoint> {
    let names = short_names(&axes.iter().flat_map(SweepAxis::paths).collect::<Vec<_>>());
    let mut points = vec![GridPoint::default()];
    let mut names = names.iter();
    for axis in axes {
        let names: Vec<_> = names.by_ref().take(axis.settings.len()).collect();
        points = points.iter().flat_map(|point| extended(point, axis, &names)).collect();
    }
    points
}

fn extended<'a>(
    point: &'a GridPoint,
    axis: &'a SweepAxis,
    names: &'a [&String],
) -> impl Iterator<Item = GridPoint> + use<'a> {
    (0..axis.len()).map(move |index| {
        let mut point = point.clone();
        for (varied, name) in axis.settings.iter().zip(names) {
            let value = &varied.values[index];
            let separator = if point.label.is_empty() { "" } else { ", " };
            point.label.push_str(&format!("{separator}{name}={}", distinct_text(value, &varied.values)));
            varied.named.put(value, &mut point.table);
            point.settings.push((varied.named.path(), value.clone()));
        }
        point
    })
}

/// Reads a grid, in which each setting is an axis.
pub(crate) fn grid(entry: Entry, place: &str, problems: &mut Vec<Problem>) -> Vec<SweepAxis> {
    varied(entry, place, problems).into_iter().map(|varied| SweepAxis { settings: vec![varied] }).collect()
}

/// Reads a zip, in which all settings form one axis.
pub(crate) fn zip(entry: Entry, place: &str, problems: &mut Vec<Problem>) -> Option<SweepAxis> {
    let origin = entry.key_origin.clone();
    let settings = varied(entry, place, problems);
    let longest = settings.iter().map(|varied| varied.values.len()).max()?;
    if settings.iter().any(|varied| varied.values.len() != longest) {
        let lengths: Vec<_> =
            settings.iter().map(|varied| format!("`{}` has {}", varied.named.path(), varied.values.len())).collect();
        let message = format!("lists in `{place}` must have the same length: {}", lengths.join(", "));
        let shorter = settings.iter().find(|varied| varied.values.len() < longest);
        let origin = shorter.map_or(origin, |varied| varied.named.node.origin.clone());
        let help = "values at the same position vary together; use `grid` for all combinations";
        problems.push(Problem::new(&origin, message).at(place).label("shorter than another").help(help));
        return None;
    }
    Some(SweepAxis { settings })
}

/// Refuses settings that two axes vary.
pub(crate) fn refuse_overlaps(axes: &[SweepAxis], place: &str, problems: &mut Vec<Problem>) {
    let all: Vec<_> = axes.iter().flat_map(|axis| &axis.settings).map(|varied| &varied.named).collect();
    for (index, one) in all.iter().enumerate() {
        let path = one.path();
        let overlaps = |other: &&&PathSetting| {
            let other = other.path();
            path == other || path.starts_with(&format!("{other}.")) || other.starts_with(&format!("{path}."))
        };
        if let Some(other) = all[..index].iter().find(overlaps) {
            let message = format!("`{place}` varies `{path}` twice{}", also(&path, &other.path()));
            problems.push(Problem::new(&one.origin(), message).at(format!("{place}.{path}")).label("already varied"));
        }
    }
}

fn also(path: &str, other: &str) -> String {
    if path == other { String::new() } else { format!(", once as part of {}", quoted([other])) }
}

fn varied(entry: Entry, place: &str, problems: &mut Vec<Problem>) -> Vec<Varied> {
    let example = format!("for example `{place} = {{ noise.ratio = [0.1, 0.2, 0.3] }}`");
    let Value::Table(table) = entry.node.value else {
        let message = format!("`{place}` must be a table of settings with their values, not {}", entry.node.kind());
        problems.push(Problem::new(&entry.node.origin, message).at(place).help(example));
        return Vec::new();
    };
    let named = named(table, |_| false);
    if named.is_empty() {
        let message = format!("`{place}` names no setting");
        problems.push(Problem::new(&entry.node.origin, message).at(place).help(example));
    }
    named.into_iter().filter_map(|named| values(named, place, problems)).collect()
}

fn values(named: PathSetting, place: &str, problems: &mut Vec<Problem>) -> Option<Varied> {
    let path = named.path();
    let full = format!("{place}.{path}");
    let first = path.split('.').next().unwrap_or_default();
    if let Some((reserved, instead)) = RESERVED.iter().find(|(reserved, _)| *reserved == first) {
        let message = format!("`{reserved}` cannot be varied in `{place}`");
        problems.push(Problem::new(&named.origin(), message).at(full).help(*instead));
        return None;
    }
    let node = named.node.clone();
    let Value::Array(values) = node.value else {
        let problem = Problem::new(&node.origin, format!("`{full}` must be a list of values, not {}", node.kind()));
        let shown = value_text(&node);
        problems.push(problem.at(full).label(format!("this is {}", node.kind())).help(format!("write `[{shown}]`")));
        return None;
    };
    if values.is_empty() {
        let problem = Problem::new(&node.origin, format!("`{full}` is empty")).at(full);
        problems.push(problem.help("remove it, or give at least one value"));
        return None;
    }
    // A zip may repeat a value next to a different one; duplicate runs are found later.
    if place.ends_with("grid") {
        for (index, value) in values.iter().enumerate() {
            if values[..index].iter().any(|other| other.to_json() == value.to_json()) {
                let message = format!("`{full}` has the value `{}` twice", value_text(value));
                problems.push(Problem::new(&value.origin, message).at(full.as_str()).label("duplicate"));
            }
        }
    }
    Some(Varied { named, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn entry(json: &Json) -> Entry {
        let node = Node::from_default(json).unwrap();
        Entry { key: "grid".into(), key_origin: Origin::Default, node }
    }

    fn read(json: &Json) -> Vec<SweepAxis> {
        let mut problems = Vec::new();
        let axes = grid(entry(json), "sweep.grid", &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        axes
    }

    #[test]
    fn a_grid_has_all_combinations_and_the_last_setting_varies_fastest() {
        let axes = read(&json!({ "noise.ratio": [0.1, 0.2], "embedding": { "size": [8, 16, 32] } }));
        let labels: Vec<_> = points(&axes).into_iter().map(|point| point.label).collect();
        assert_eq!(count(&axes), 6);
        assert_eq!(labels[..4], ["ratio=0.1, size=8", "ratio=0.1, size=16", "ratio=0.1, size=32", "ratio=0.2, size=8"]);
        assert_eq!(points(&[]).len(), 1);
    }

    #[test]
    fn a_zip_varies_its_settings_together() {
        let mut problems = Vec::new();
        let axis = zip(entry(&json!({ "a": [1, 2], "b.c": ["x", "x"] })), "sweep.zip", &mut problems).unwrap();
        let points = points(&[axis]);
        assert_eq!(points.iter().map(|p| p.label.as_str()).collect::<Vec<_>>(), ["a=1, c=x", "a=2, c=x"]);
        let table = Node { value: Value::Table(points[1].table.clone()), origin: Origin::Default };
        assert_eq!(table.to_json(), json!({ "a": 2, "b": { "c": "x" } }));
    }
}
