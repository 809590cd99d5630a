//! Charts of what runs logged during training.

use super::axis::Scale;
use super::chart::{Chart, ChartPoint, Series};
use super::family::Family;
use crate::Result;
use crate::statistics::Spread;
use crate::{Comparison, Measure, ReportedRun};
use curricle_record::RunFolder;
use std::collections::BTreeMap;

/// The scalars of a run by tag and epoch.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, BTreeMap<u64, f64>>);

impl History {
    /// Reads the scalars that the charts need; the last value of an epoch counts.
    pub(super) fn read(run: &ReportedRun, main: Option<&Measure>) -> Result<Self> {
        let main = main.map(|measure| format!("eval/{}", measure.name));
        let mut history = Self::default();
        for record in RunFolder::new(&run.folder).read_metrics()? {
            let wanted = record.tag == "train/epoch_loss" || record.tag.starts_with("weights/");
            if record.value.is_finite() && (wanted || Some(&record.tag) == main.as_ref()) {
                history.0.entry(record.tag).or_default().insert(record.epoch, record.value);
            }
        }
        Ok(history)
    }
}

/// A scalar to plot over epochs.
pub(super) struct PlottedScalar {
    /// Its tag.
    pub tag: String,
    /// Name in file names.
    pub name: &'static str,
    /// Heading.
    pub title: String,
    /// Label of the vertical axis.
    pub label: String,
    /// Scale of the vertical axis.
    pub scale: Scale,
    /// Limits of the vertical axis.
    pub limits: (f64, f64),
    /// Factor for all values, or `None` to divide each run by its first value.
    pub unit: Option<f64>,
    /// What runs must have logged, shown if the chart cannot be drawn.
    pub needs: &'static str,
    /// A second tag, drawn dashed in the same colour.
    pub before: Option<&'static str>,
}

/// All scalars that are plotted.
pub(crate) fn plotted_scalars(main: Option<&Measure>) -> Vec<PlottedScalar> {
    let any = (f64::NEG_INFINITY, f64::INFINITY);
    let mut all = Vec::new();
    if let Some(main) = main.filter(|main| main.percent) {
        all.push(PlottedScalar {
            tag: format!("eval/{}", main.name),
            name: "curve",
            title: format!("{} during training", main.title),
            label: format!("{} (%)", main.title),
            scale: Scale::Linear,
            limits: (0.0, 100.0),
            unit: Some(100.0),
            needs: "evaluations after at least two epochs",
            before: None,
        });
    }
    all.push(PlottedScalar {
        tag: "train/epoch_loss".into(),
        name: "loss",
        title: "Training loss, relative to the first epoch".into(),
        label: "loss / loss of epoch 1".into(),
        scale: Scale::Linear,
        limits: any,
        unit: None,
        needs: "at least two epochs",
        before: None,
    });
    all.push(PlottedScalar {
        tag: "weights/objective".into(),
        name: "objective",
        title: "Objective of the weights by round".into(),
        label: "objective".into(),
        scale: Scale::Linear,
        limits: any,
        unit: Some(1.0),
        needs: "a weight scheme that logs its objective, and at least two rounds",
        before: Some("weights/objective_before"),
    });
    all.push(PlottedScalar {
        tag: "weights/projected_gradient".into(),
        name: "convergence",
        title: "Projected gradient when the solver stopped".into(),
        label: "norm of the projected gradient".into(),
        scale: Scale::Log,
        limits: any,
        unit: Some(1.0),
        needs: "a weight scheme that logs its projected gradient, and at least two rounds",
        before: None,
    });
    all.push(PlottedScalar {
        tag: "weights/auroc".into(),
        name: "auroc",
        title: "Wrong labels found by the weights".into(),
        label: "AUROC (%)".into(),
        scale: Scale::Linear,
        limits: (0.0, 100.0),
        unit: Some(100.0),
        needs: "a weight scheme, known wrong labels, and at least two rounds",
        before: None,
    });
    all
}

/// The scalars of the figure about memorisation: the main metric and the weights' AUROC.
pub(super) fn memorised(plotted: &[PlottedScalar]) -> Option<[&PlottedScalar; 2]> {
    let mut both = plotted.iter().filter(|scalar| is_in_memorisation(scalar));
    Some([both.next()?, both.next()?])
}

/// Whether the figure about memorisation shows a scalar.
pub(super) fn is_in_memorisation(scalar: &PlottedScalar) -> bool {
    matches!(scalar.name, "curve" | "auroc")
}

/// One chart of a case.
///
/// # Errors
/// Why there is nothing to draw.
pub(super) fn chart(
    comparison: &Comparison,
    histories: &BTreeMap<&std::path::Path, History>,
    case: &str,
    followed: &PlottedScalar,
) -> Result<Chart, String> {
    let mut series = Vec::new();
    for (index, (method, family)) in comparison.methods.iter().zip(Family::all(comparison)).enumerate() {
        let runs = comparison.group(method, case);
        let own: Vec<&History> = runs.iter().filter_map(|run| histories.get(run.folder.as_path())).collect();
        let line = points(&own, &followed.tag, followed.unit, followed.scale);
        if line.len() > 1 {
            series.push(Series { name: method.clone(), style: index, family: family.clone(), points: line });
        }
        if let Some(before) = followed.before {
            let line = points(&own, before, followed.unit, followed.scale);
            if line.len() > 1 {
                // The same colour with another dash pattern.
                let name = |method: &str| format!("{method}, before the round");
                let family = Family { variant: name(&family.variant), style: family.style + 8, ..family };
                series.push(Series { name: name(method), style: index + 8, family, points: line });
            }
        }
    }
    if series.is_empty() {
        return Err(format!("needs {}", followed.needs));
    }
    let suffix = if case.is_empty() { String::new() } else { format!("-{case}") };
    let condition = if case.is_empty() { String::new() } else { format!(" ({case})") };
    Ok(Chart {
        name: super::slug(&format!("{}{suffix}", followed.name)),
        title: format!("{}{condition}", followed.title),
        x_label: "epoch".into(),
        x_scale: Scale::Linear,
        x_discrete: false,
        y_label: followed.label.clone(),
        y_scale: followed.scale,
        y_limits: followed.limits,
        series,
        interval: "Bars and bands are 95 % confidence intervals",
    })
}

/// The mean over runs at every epoch that all of them have.
fn points(histories: &[&History], tag: &str, unit: Option<f64>, scale: Scale) -> Vec<ChartPoint> {
    let lines: Vec<&BTreeMap<u64, f64>> = histories.iter().filter_map(|history| history.0.get(tag)).collect();
    let Some(first) = lines.first().filter(|_| lines.len() == histories.len()) else { return Vec::new() };
    let mut points = Vec::new();
    for epoch in first.keys() {
        let value = |line: &&BTreeMap<u64, f64>| {
            let value = *line.get(epoch)?;
            let unit = unit.or_else(|| line.values().next().filter(|first| **first != 0.0).map(|first| 1.0 / first))?;
            Some(unit * value)
        };
        let values: Option<Vec<f64>> = lines.iter().map(value).collect();
        let Some(spread) = values.and_then(|values| Spread::of(&values)) else { continue };
        if scale == Scale::Linear || spread.mean > 0.0 {
            let interval = spread.interval.filter(|_| scale == Scale::Linear);
            points.push(ChartPoint { x: *epoch as f64, y: spread.mean, interval });
        }
    }
    points
}
