//! A metric against a setting that was varied.

use super::axis::Scale;
use super::chart::{Chart, ChartPoint, Series};
use super::family::Family;
use crate::difference::leaves;
use crate::statistics::Spread;
use crate::{Comparison, Measure, ReportedRun};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of lines in a chart that stay distinguishable.
const LINES: usize = 12;

/// A setting for the horizontal axis.
pub(super) struct Dimension {
    /// Its name in file names.
    pub name: &'static str,
    /// Label of the axis.
    pub label: &'static str,
    /// Scale of the axis.
    pub scale: Scale,
    /// Its value in a run, or `None` to exclude the run.
    pub value: fn(&ReportedRun) -> Option<f64>,
    /// Settings that vary with it and do not start a separate line.
    pub covers: fn(&str) -> bool,
    /// What kind of value a run has, where there are several; a run of no kind belongs to the lines of all.
    pub kind: fn(&ReportedRun) -> Option<String>,
}

/// Noise ratio, for runs that train on the flipped samples.
pub(super) const NOISE: Dimension = Dimension {
    name: "noise",
    label: "wrong labels (%)",
    scale: Scale::Linear,
    value: |run| {
        let removed = run.setting("noise.remove_flipped").is_some_and(|value| value == true);
        match run.word("noise.name").unwrap_or("none") {
            "none" => Some(0.0),
            "list" => None,
            _ if removed => None,
            _ => run.number("noise.ratio").map(|ratio| 100.0 * ratio),
        }
    },
    covers: |setting| matches!(setting, "noise.ratio" | "noise.seed" | "noise.remove_flipped" | "noise.name"),
    kind: |run| run.word("noise.name").filter(|name| *name != "none").map(|name| format!("{name} noise")),
};

/// The age λ_∞, where it is set.
pub(crate) const LAMBDA: Dimension = Dimension {
    name: "lambda",
    label: "λ∞",
    scale: Scale::Linear,
    value: |run| run.number("weights.lambda").or_else(|| run.number("weights.lambda.max")),
    covers: |setting| setting == "weights.lambda" || setting.starts_with("weights.lambda."),
    kind: |_| None,
};

/// The weight μ of the balance between classes, where it is set.
pub(crate) const MU: Dimension = Dimension {
    name: "mu",
    label: "μ",
    scale: Scale::Linear,
    value: |run| run.number("weights.mu"),
    covers: |setting| setting == "weights.mu",
    kind: |_| None,
};

/// Embedding size.
pub(crate) const EMBEDDING: Dimension = Dimension {
    name: "embedding",
    label: "embedding size",
    scale: Scale::Log,
    value: |run| run.number("embedding.size"),
    covers: |setting| setting == "embedding.size",
    kind: |_| None,
};

/// One chart, or one for each combination of the other settings if it would be too crowded.
///
/// # Errors
/// Why there is nothing to draw.
pub(super) fn charts(comparison: &Comparison, measure: &Measure, dimension: &Dimension) -> Result<Vec<Chart>, String> {
    let lines = lines(comparison, measure, dimension);
    if lines.is_empty() {
        return Err(format!("needs runs of one method with at least two values of {}", dimension.label));
    }
    let facets: BTreeSet<&str> = lines.keys().map(|(_, facet)| facet.as_str()).collect();
    let apart = facets.len() > 1 && lines.len() > LINES;
    let families = Family::all(comparison);
    let chart = |facet: Option<&str>| {
        let shown = lines.iter().filter(|((_, own), _)| facet.is_none_or(|facet| facet == own));
        let series = shown.enumerate().map(|(i, ((method, own), points))| {
            let named = |name: &str| match facet {
                None if !own.is_empty() => format!("{name}, {own}"),
                _ => name.to_string(),
            };
            let Family { loss, variant, style } = families[*method].clone();
            let dash = if facet.is_none() { facets.iter().position(|facet| facet == own).unwrap_or(0) } else { 0 };
            Series {
                name: named(&comparison.methods[*method]),
                style: if facets.len() > 1 && facet.is_none() { i } else { *method },
                family: Family { loss, variant: named(&variant), style: style + 8 * dash },
                points: points.clone(),
            }
        });
        let suffix = facet.map_or_else(String::new, |facet| format!("-{facet}"));
        let condition = facet.map_or_else(String::new, |facet| format!(", {facet}"));
        Chart {
            name: super::slug(&format!("{}-against-{}{suffix}", measure.name, dimension.name)),
            title: format!("{} against {}{condition}", measure.title, dimension.label.trim_end_matches(" (%)")),
            x_label: dimension.label.into(),
            x_scale: dimension.scale,
            x_discrete: true,
            y_label: if measure.percent { format!("{} (%)", measure.title) } else { measure.title.clone() },
            y_scale: Scale::Linear,
            y_limits: if measure.percent { (0.0, 100.0) } else { (f64::NEG_INFINITY, f64::INFINITY) },
            series: series.collect(),
            interval: "Bars are 95 % confidence intervals",
        }
    };
    Ok(if apart { facets.iter().map(|facet| chart(Some(facet))).collect() } else { vec![chart(None)] })
}

type SweepLines = BTreeMap<(usize, String), Vec<ChartPoint>>;

/// Points by method and by the other settings that differ between its runs.
fn lines(comparison: &Comparison, measure: &Measure, dimension: &Dimension) -> SweepLines {
    let mut lines = SweepLines::new();
    let kinds: BTreeSet<String> = comparison.runs.iter().filter_map(|run| (dimension.kind)(run)).collect();
    // A single kind needs no name.
    let kinds: Vec<Option<&String>> = if kinds.len() > 1 { kinds.iter().map(Some).collect() } else { vec![None] };
    let methods = comparison.methods.iter().enumerate();
    for ((index, method), kind) in methods.flat_map(|method| kinds.iter().map(move |kind| (method, kind))) {
        let groups: Vec<Vec<&ReportedRun>> = comparison.groups().filter(|g| g.0 == method).map(|g| g.2).collect();
        let of_kind = |run| kind.is_none() || (dimension.kind)(run).is_none_or(|own| Some(&own) == *kind);
        let groups: Vec<_> = groups
            .iter()
            .filter(|runs| of_kind(runs[0]))
            .filter_map(|runs| Some(((dimension.value)(runs[0])?, runs)))
            .collect();
        let settings: Vec<Vec<(String, String)>> = groups.iter().map(|(_, runs)| leaves(&runs[0].settings)).collect();
        for ((x, runs), own) in groups.iter().zip(&settings) {
            let differs = |leaf: &&(String, String)| settings.iter().any(|other| !other.contains(leaf));
            let settings = own.iter().filter(|(setting, _)| !(dimension.covers)(setting)).filter(differs);
            let facet: Vec<String> =
                kind.iter().map(ToString::to_string).chain(settings.map(|(s, v)| format!("{s} {v}"))).collect();
            let values: Vec<f64> = runs.iter().filter_map(|run| measure.of(run)).collect();
            let Some(spread) = Spread::of(&values) else { continue };
            let unit = if measure.percent { 100.0 } else { 1.0 };
            let interval = spread.interval.map(|ends| ends.map(|end| unit * end));
            let points = lines.entry((index, facet.join(", "))).or_default();
            if points.iter().all(|point| point.x != *x) {
                points.push(ChartPoint { x: *x, y: unit * spread.mean, interval });
            }
        }
    }
    lines.values_mut().for_each(|points| points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    // A method with a single value is drawn as a point, but only if another has a line.
    if lines.values().all(|points| points.len() < 2) {
        lines.clear();
    }
    lines
}
