//! Losses × weight schemes: one table for each case in which losses were combined with several schemes.

use crate::case_title::case_title;
use crate::cell::{Cell, ReportTable, value_cell};
use crate::runs::ORACLE;
use crate::{Comparison, Measure, Summary, SummaryRow};

/// One table for each case with at least two losses and two weight schemes, and the case.
pub(crate) fn grids<'a>(comparison: &'a Comparison, summary: &Summary) -> Vec<(&'a str, ReportTable)> {
    let Some(main) = summary.metrics.first() else { return Vec::new() };
    let cases = comparison.cases.iter().map(String::as_str);
    cases.filter_map(|case| Some((case, grid(case, main, comparison, summary)?))).collect()
}

fn grid(case: &str, main: &Measure, comparison: &Comparison, summary: &Summary) -> Option<ReportTable> {
    let methods: Vec<&SummaryRow> = summary.of_case(case).filter(|row| row.trained && !row.loss.is_empty()).collect();
    let mut schemes: Vec<&str> = Vec::new();
    let mut rows: Vec<GridRow> = Vec::new();
    for method in &methods {
        if !schemes.contains(&method.weights.as_str()) {
            schemes.push(&method.weights);
        }
        let free =
            |row: &&mut GridRow| row.loss == method.loss && row.cells.iter().all(|c| c.weights != method.weights);
        match rows.iter_mut().find(free) {
            Some(row) => row.cells.push(method),
            // A second method with the same loss and weights, but other settings, has its own row.
            None => rows.push(GridRow { loss: &method.loss, cells: vec![method] }),
        }
    }
    let losses = rows.iter().filter(|row| row.cells.len() > 1).count();
    if losses < 2 || schemes.len() < 2 {
        return None;
    }
    // No weights first, the upper bound last.
    schemes.sort_by_key(|scheme| match *scheme {
        "uniform" => 0,
        ORACLE => 2,
        _ => 1,
    });
    let mut columns = vec!["loss".to_string()];
    columns.extend(
        schemes.iter().map(|scheme| if *scheme == "uniform" { "no weights".into() } else { scheme.replace('_', " ") }),
    );
    let title = match case_title(comparison, case) {
        title if title.is_empty() => format!("{} by loss and weights", main.title),
        title => format!("{} by loss and weights: {title}", main.title),
    };
    let line = |row: &GridRow| {
        let value = |scheme: &&str| {
            let value = row.cells.iter().find(|cell| cell.weights == **scheme)?.values.get(&main.name)?;
            Some(value_cell(main, value))
        };
        let mut cells = vec![Cell::text(row.title(&rows))];
        cells.extend(schemes.iter().map(|scheme| value(scheme).unwrap_or_default()));
        cells
    };
    Some(ReportTable { title, columns, rows: rows.iter().map(line).collect(), baselines: 0 })
}

/// A loss with some of its methods, at most one for each weight scheme.
struct GridRow<'a> {
    loss: &'a str,
    cells: Vec<&'a SummaryRow>,
}

impl GridRow<'_> {
    /// The loss, or the methods if another row has the same loss.
    fn title(&self, rows: &[GridRow]) -> String {
        if rows.iter().filter(|row| row.loss == self.loss).count() == 1 {
            return self.loss.into();
        }
        self.cells.iter().map(|cell| cell.method.as_str()).collect::<Vec<_>>().join(", ")
    }
}
