//! The tables of a report, independent of the output format.

use crate::case_title::case_title;
use crate::cell::value_cell;
pub use crate::cell::{Cell, Content, Mark, ReportTable};
use crate::grid::grids;
use crate::runs::ORACLE;
use crate::summary::{MetricValue, Summary, SummaryRow};
use crate::{Comparison, Measure, Published, published};

/// All tables of a report with their notes.
#[derive(Debug, Clone)]
pub struct ReportLayout {
    /// Heading of the report.
    pub title: String,
    /// The tables.
    pub tables: Vec<ReportTable>,
    /// The tables for papers: methods × cases, or methods × metrics of a single case, and losses × weights; many
    /// methods have losses × weights only, where they have them.
    pub compact: Vec<ReportTable>,
    /// How to read them.
    pub notes: Vec<String>,
    /// Caveats.
    pub caveats: Vec<String>,
}

/// Methods that an overview shows on one page. With more, tables of losses × weights say the same at a glance.
const PAGE: usize = 40;

/// Lays out an overview of all cases, if there are several, and one table for each.
pub fn layout(title: &str, comparison: &Comparison, summary: &Summary) -> ReportLayout {
    let grids = grids(comparison, summary);
    let main = summary.metrics.first().filter(|_| comparison.cases.len() > 1);
    let overview: Vec<ReportTable> = main.map(|main| overview(main, comparison, summary)).into_iter().collect();
    let long = !grids.is_empty() && comparison.methods.len() > PAGE;
    let compact: Vec<ReportTable> = if long || overview.is_empty() {
        let has_grid = |case: &String| long && grids.iter().any(|(own, _)| own == case);
        let others = comparison.cases.iter().filter(|case| !has_grid(case));
        others.map(|case| of_metrics(case, comparison, summary)).collect()
    } else {
        overview.clone()
    };
    let grids: Vec<ReportTable> = grids.into_iter().map(|(_, table)| table).collect();
    let compact = compact.into_iter().chain(grids.iter().cloned()).collect();
    let mut tables: Vec<ReportTable> =
        if long { grids.into_iter().chain(overview).collect() } else { overview.into_iter().chain(grids).collect() };
    for case in &comparison.cases {
        tables.push(of_case(case, comparison, summary));
    }
    let mut notes = notes(summary);
    if let (Some(against), true) = (&summary.against, has_stars(&tables)) {
        notes.push(format!("* p < 0.05, ** p < 0.01 against `{against}`."));
    }
    ReportLayout { title: title.into(), tables, compact, notes, caveats: summary.caveats.clone() }
}

fn overview(measure: &Measure, comparison: &Comparison, summary: &Summary) -> ReportTable {
    let column = |case: &String| if case.is_empty() { "unnamed".into() } else { case_title(comparison, case) };
    let mut columns = vec!["method".to_string()];
    columns.extend(comparison.cases.iter().map(column));
    let cells = |name: &str, row: &dyn Fn(&str) -> Option<Cell>| {
        let mut cells = vec![Cell::text(name)];
        cells.extend(comparison.cases.iter().map(|case| row(case).unwrap_or_default()));
        cells
    };
    let before = |case: &str| {
        let row = summary.of_case(case).find(|row| !row.trained)?;
        Some(value_cell(measure, row.values.get(&measure.name)?))
    };
    let mut rows: Vec<_> =
        summary.rows.iter().any(|r| !r.trained).then(|| cells("untrained", &before)).into_iter().collect();
    let baselines = rows.len();
    rows.extend(comparison.methods.iter().map(|method| {
        cells(method, &|case| Some(value_cell(measure, summary.row(method, case)?.values.get(&measure.name)?)))
    }));
    ReportTable { title: format!("{} in all cases", measure.title), columns, rows, baselines }
}

/// Whether a table shows how certain differences are.
fn has_stars(tables: &[ReportTable]) -> bool {
    tables.iter().flat_map(|table| table.rows.iter().flatten()).any(|cell| !cell.stars.is_empty())
}

/// The metrics of all methods of a case.
fn of_metrics(case: &str, comparison: &Comparison, summary: &Summary) -> ReportTable {
    let rows: Vec<&SummaryRow> = summary.of_case(case).collect();
    // Without noise there is no AUROC, for example.
    let known = |measure: &&Measure| rows.iter().any(|row| row.values.contains_key(&measure.name));
    let metrics: Vec<&Measure> = summary.metrics.iter().filter(known).collect();
    let mut columns = vec!["method".to_string()];
    columns.extend(metrics.iter().map(|measure| measure.title.clone()));
    let cells = |row: &&SummaryRow| {
        let value = |measure: &Measure| Some(value_cell(measure, row.values.get(&measure.name)?));
        let values = metrics.iter().map(|measure| value(measure).unwrap_or_default());
        std::iter::once(Cell::text(&row.method)).chain(values).collect()
    };
    ReportTable {
        title: if case.is_empty() { "Results".into() } else { case_title(comparison, case) },
        columns,
        baselines: rows.iter().filter(|row| !row.trained).count(),
        rows: rows.iter().map(cells).collect(),
    }
}

fn of_case(case: &str, comparison: &Comparison, summary: &Summary) -> ReportTable {
    let rows: Vec<&SummaryRow> = summary.of_case(case).collect();
    let columns = columns(&rows, summary);
    let mut titles = vec!["method".to_string()];
    titles.extend(columns.iter().map(|column| column.title.clone()));
    titles.push("runs".into());
    let cells = |row: &&SummaryRow| {
        let mut cells = vec![Cell::text(&row.method)];
        cells.extend(columns.iter().map(|column| {
            let value = row.values.get(&column.measure.name);
            value.and_then(|value| (column.cell)(&column.measure, value)).unwrap_or_default()
        }));
        let runs = row.seeds.len();
        cells.push(match row.missing {
            0 => Cell::number(runs.to_string()),
            missing => Cell::text(format!("{runs} of {}", runs + missing)),
        });
        cells
    };
    ReportTable {
        title: if case.is_empty() { "Results".into() } else { case_title(comparison, case) },
        columns: titles,
        baselines: rows.iter().filter(|row| !row.trained).count(),
        rows: rows.iter().map(cells).collect(),
    }
}

/// A column that shows one aspect of a metric.
struct Column {
    title: String,
    measure: Measure,
    cell: fn(&Measure, &MetricValue) -> Option<Cell>,
}

/// The main metric with interval, gain, test and published value, then the others.
fn columns(rows: &[&SummaryRow], summary: &Summary) -> Vec<Column> {
    let mut columns = Vec::new();
    // Without noise there is no AUROC, for example; the main metric is always there.
    let known = |measure: &&Measure| rows.iter().any(|row| row.values.contains_key(&measure.name));
    let (main, others) = summary.metrics.split_at(summary.metrics.len().min(1));
    for (index, measure) in main.iter().chain(others.iter().filter(known)).enumerate() {
        let mut add = |title: &str, cell: fn(&Measure, &MetricValue) -> Option<Cell>| {
            columns.push(Column { title: title.into(), measure: measure.clone(), cell });
        };
        // Without stars: there is a column for p.
        add(&measure.title, |measure, value| Some(Cell { stars: "", ..value_cell(measure, value) }));
        if index > 0 {
            continue;
        }
        let has =
            |wanted: fn(&MetricValue) -> bool| rows.iter().filter_map(|row| row.values.get(&measure.name)).any(wanted);
        if has(|value| value.spread.interval.is_some()) {
            add("95 % CI", |measure, value| {
                let [low, high] = value.spread.interval?;
                Some(Content::Interval(measure.show(low), measure.show(high)).into())
            });
        }
        if has(|value| value.best_epoch.is_some()) {
            add("best epoch †", |measure, value| {
                let best = value.best_epoch?.spread;
                let std = best.std.map(|std| measure.show_std(std, best.mean));
                Some(Content::Number { mean: measure.show(best.mean), std }.into())
            });
        }
        if has(|value| value.gain.is_some()) {
            add("vs untrained", |measure, value| Some(signed(measure, value.gain?.mean)));
        }
        if let Some(against) = &summary.against {
            add(&format!("vs {against}"), |measure, value| Some(signed(measure, value.against?.difference.mean)));
            add("p", |_, value| Some(Cell::number(p_value(value.against?.p_corrected?))));
        }
        if has(|value| value.published.is_some()) {
            add("published", |measure, value| {
                let Published { mean, std } = value.published?;
                Some(
                    Content::Number { mean: measure.show(mean), std: std.map(|std| measure.show_std(std, mean)) }
                        .into(),
                )
            });
        }
    }
    columns
}

fn signed(measure: &Measure, difference: f64) -> Cell {
    let shown = measure.show(difference);
    let zero = shown.trim_matches(['0', '.']).is_empty();
    Content::Signed(if zero || shown.starts_with('-') { shown } else { format!("+{shown}") }).into()
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".into() } else { format!("{p:.3}") }
}

fn notes(summary: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    let values = || summary.rows.iter().flat_map(|row| row.values.values());
    let percent: Vec<&str> = summary.metrics.iter().filter(|m| m.percent).map(|m| m.title.as_str()).collect();
    let unit = match percent.len() {
        0 => "",
        n if n == summary.metrics.len() => " in %",
        _ => " (fractions in %)",
    };
    let spread = if values().any(|v| v.spread.std.is_some()) { ", mean ± standard deviation over seeds" } else { "" };
    notes.push(format!("Values after the last epoch{unit}{spread}."));
    if values().any(|v| v.spread.interval.is_some()) {
        notes.push("95 % CI: confidence interval of the mean (Student's t).".into());
    }
    if let Some(against) = &summary.against {
        let several = summary.cases().any(|case| summary.of_case(case).filter(|row| row.trained).count() > 2);
        let corrected = if several { ", Holm-corrected over all methods of the case" } else { "" };
        notes.push(format!(
            "vs {against}: mean difference from `{against}`, paired by seed; p: {}{corrected}.",
            summary.test.title()
        ));
    }
    if values().any(|v| v.best_epoch.is_some()) {
        notes.push(
            "† best epoch: the highest value during training, a selection on the test classes that no one can make."
                .into(),
        );
    }
    if summary.rows.iter().any(|row| row.weights == ORACLE) {
        notes.push("`oracle` knows the wrong labels: an upper bound, not ranked.".into());
    }
    if values().any(|v| v.published.is_some()) {
        notes.push(format!("{}{}.", published::SOURCE[..1].to_uppercase(), &published::SOURCE[1..]));
    }
    notes
}
