//! HTML: a single page with tables, figures, settings, retrievals and conditions.
//!
//! The page is self-contained and has no scripts, so it can be mailed, archived and printed.

use super::names::listed;
use crate::agreement::{self, Condition};
use crate::figures::Figures;
use crate::table::{Cell, Content, Mark, ReportLayout, ReportTable};
use crate::{Comparison, Difference, Measure, ReportedRun, SkippedRun, Summary, differences, shared};
use crate::{Error, Result};
use base64::Engine;
use curricle_record::RunFolder;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The contents of the page.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The runs.
    pub comparison: &'a Comparison,
    /// Their numbers.
    pub summary: &'a Summary,
    /// Their tables.
    pub layout: &'a ReportLayout,
    /// Their figures.
    pub figures: &'a Figures,
}

/// The page as HTML.
pub fn html(page: &Page) -> Result<String> {
    let failed = |e: minijinja::Error| Error::Write { what: "page", message: format!("{e:#}") };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(failed)?);
    environment.add_filter("code", |text: String| Value::from_safe_string(code(&text)));
    environment.add_filter("breakable", |text: String| Value::from_safe_string(breakable(&text)));
    environment.add_template("report", include_str!("page.html")).map_err(failed)?;
    environment.get_template("report").and_then(|template| template.render(Serde(view(page)))).map_err(failed)
}

/// Escapes a name and lets it wrap after a `+`.
fn breakable(name: &str) -> String {
    minijinja::HtmlEscape(name).to_string().replace('+', "+<wbr>")
}

/// Escapes text and turns backticks into `<code>`.
fn code(text: &str) -> String {
    let escape = |part: &str| minijinja::HtmlEscape(part).to_string();
    let mut marked = String::new();
    let mut rest = text;
    while let Some((before, (inside, after))) =
        rest.split_once('`').and_then(|(before, after)| Some((before, after.split_once('`')?)))
    {
        let _ = write!(marked, "{}<code>{}</code>", escape(before), escape(inside));
        rest = after;
    }
    marked + &escape(rest)
}

#[derive(Serialize)]
struct PageView {
    title: String,
    version: &'static str,
    counts: String,
    tables: Vec<TableView>,
    notes: Vec<String>,
    caveats: Vec<String>,
    figures: Vec<FigureGroup>,
    not_drawn: Vec<crate::figures::NotDrawn>,
    damaged: Vec<crate::figures::NotDrawn>,
    methods: Vec<DifferenceView>,
    cases: Vec<DifferenceView>,
    shared: Vec<(String, String)>,
    gallery: Vec<GalleryCase>,
    conditions: Vec<ConditionView>,
    made_with: Vec<(&'static str, String)>,
    runs: Vec<RunView>,
    main: Option<Measure>,
    skipped: Vec<SkippedRun>,
}

#[derive(Serialize)]
struct TableView {
    title: String,
    columns: Vec<String>,
    rows: Vec<RowView>,
}

#[derive(Serialize)]
struct RowView {
    class: &'static str,
    name: String,
    cells: Vec<CellView>,
}

#[derive(Serialize)]
struct CellView {
    text: String,
    std: Option<String>,
    mark: &'static str,
    /// Its stars, or no text where only other cells of the column have some.
    stars: Option<&'static str>,
}

#[derive(Serialize)]
struct FigureGroup {
    case: String,
    figures: Vec<FigureView>,
    /// Histograms of weights, one for each method; folded away where they are many.
    weights: Vec<FigureView>,
}

#[derive(Serialize)]
struct FigureView {
    /// Markup, inserted without escaping.
    svg: String,
    wide: bool,
}

#[derive(Serialize)]
struct DifferenceView {
    setting: String,
    values: Vec<(String, String)>,
}

#[derive(Serialize)]
struct GalleryCase {
    case: String,
    images: Vec<Retrieval>,
}

#[derive(Serialize)]
struct Retrieval {
    method: String,
    seed: u64,
    value: String,
    uri: String,
}

#[derive(Serialize)]
struct ConditionView {
    case: String,
    seed: u64,
    values: Vec<String>,
}

#[derive(Serialize)]
struct RunView {
    method: String,
    case: String,
    seed: u64,
    value: String,
    epochs: u64,
    seconds: String,
    device: String,
    folder: String,
}

fn view(page: &Page) -> PageView {
    let Page { comparison, summary, layout, figures } = *page;
    let main = summary.metrics.first();
    PageView {
        title: layout.title.clone(),
        version: env!("CARGO_PKG_VERSION"),
        counts: counts(comparison),
        tables: layout.tables.iter().map(table).collect(),
        notes: layout.notes.clone(),
        caveats: layout.caveats.clone(),
        figures: figure_groups(comparison, figures),
        not_drawn: figures.not_drawn.clone(),
        damaged: figures.damaged.clone(),
        methods: method_differences(comparison),
        cases: case_differences(comparison),
        shared: shared(&comparison.runs.iter().map(|run| &run.settings).collect::<Vec<_>>()),
        gallery: gallery(comparison, main),
        conditions: conditions(comparison),
        made_with: made_with(comparison),
        runs: comparison.runs.iter().map(|run| run_view(run, main)).collect(),
        main: main.cloned(),
        skipped: comparison.skipped.clone(),
    }
}

fn counts(comparison: &Comparison) -> String {
    let several = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    let seeds: BTreeSet<u64> = comparison.runs.iter().map(ReportedRun::seed).collect();
    let parts = [
        several(comparison.methods.len(), "method"),
        several(comparison.cases.len(), "case"),
        several(seeds.len(), "seed"),
        several(comparison.runs.len(), "run"),
    ];
    parts.join(" · ")
}

fn table(table: &ReportTable) -> TableView {
    let stars: Vec<bool> = (1..table.columns.len()).map(|column| table.stars(column) > 0).collect();
    let rows = table.rows.iter().enumerate().map(|(i, row)| {
        let mut cells = row.iter();
        RowView {
            class: match (i + 1).cmp(&table.baselines) {
                Ordering::Less => "baseline",
                Ordering::Equal => "baseline last-baseline",
                Ordering::Greater => "",
            },
            name: cells.next().map(Cell::plain).unwrap_or_default(),
            cells: cells.zip(&stars).map(|(one, stars)| cell(one, *stars)).collect(),
        }
    });
    TableView { title: table.title.clone(), columns: table.columns.clone(), rows: rows.collect() }
}

fn cell(cell: &Cell, column_has_stars: bool) -> CellView {
    let mark = match cell.mark {
        Mark::Best => "best",
        Mark::Second => "second",
        Mark::None => "",
    };
    let stars = column_has_stars.then_some(cell.stars);
    match &cell.content {
        Content::Number { mean, std } => CellView { text: mean.replace('-', "−"), std: std.clone(), mark, stars },
        _ => CellView { text: cell.plain(), std: None, mark, stars },
    }
}

/// Figures that cover all cases first, then those of each case.
fn figure_groups(comparison: &Comparison, figures: &Figures) -> Vec<FigureGroup> {
    let mut keys = vec![String::new()];
    keys.extend(comparison.cases.iter().filter(|case| !case.is_empty()).cloned());
    let group = |case: String| {
        let own = |weights: bool| {
            let own = figures.drawn.iter().filter(|figure| figure.case == case && figure.of_weights == weights);
            own.map(|figure| FigureView { svg: figure.svg.clone(), wide: figure.wide }).collect()
        };
        FigureGroup { figures: own(false), weights: own(true), case: case.clone() }
    };
    let groups = keys.into_iter().map(group);
    groups.filter(|group| !group.figures.is_empty() || !group.weights.is_empty()).collect()
}

/// How methods differ in the first case that has them all; cases change all methods alike.
fn method_differences(comparison: &Comparison) -> Vec<DifferenceView> {
    let first = |method: &String| comparison.runs.iter().find(|run| run.method == *method);
    let in_one_case = comparison
        .cases
        .iter()
        .find(|case| comparison.methods.iter().all(|method| !comparison.group(method, case).is_empty()));
    let recipe = |method: &String| match in_one_case {
        Some(case) => comparison.group(method, case).first().copied(),
        None => first(method),
    };
    let recipes: Vec<_> = comparison.methods.iter().filter_map(|m| Some((m.as_str(), &recipe(m)?.settings))).collect();
    difference_views(differences(&recipes), &comparison.methods)
}

fn case_differences(comparison: &Comparison) -> Vec<DifferenceView> {
    let in_all_cases = comparison
        .methods
        .iter()
        .find(|method| comparison.cases.iter().all(|case| !comparison.group(method, case).is_empty()));
    let recipe = |case: &String| match in_all_cases {
        Some(method) => comparison.group(method, case).first().copied(),
        None => comparison.of_case(case).first().copied(),
    };
    let recipes: Vec<_> = comparison.cases.iter().filter_map(|c| Some((c.as_str(), &recipe(c)?.settings))).collect();
    difference_views(differences(&recipes), &comparison.cases)
}

/// Which methods or cases have each value; a majority is shown as `all others`.
fn difference_views(differences: Vec<Difference>, everyone: &[String]) -> Vec<DifferenceView> {
    let view = |difference: Difference| {
        let total: usize = difference.values.iter().map(|(_, who)| who.len()).sum();
        let value = |(value, who): (String, Vec<String>)| {
            let many = who.len() > 3 && 2 * who.len() > everyone.len() && total == everyone.len();
            (value, if many { "all others".into() } else { listed(&who, everyone) })
        };
        DifferenceView { setting: difference.setting, values: difference.values.into_iter().map(value).collect() }
    };
    differences.into_iter().map(view).collect()
}

/// Retrievals of each method, from its first seed that saved an image.
fn gallery(comparison: &Comparison, main: Option<&Measure>) -> Vec<GalleryCase> {
    let retrieval = |run: &ReportedRun| {
        let bytes = std::fs::read(RunFolder::new(&run.folder).retrieval()).ok()?;
        let uri = format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes));
        Some(Retrieval { method: run.method.clone(), seed: run.seed(), value: shown(run, main), uri })
    };
    let case = |case: &String| {
        let images = comparison
            .methods
            .iter()
            .filter_map(|method| comparison.group(method, case).into_iter().find_map(retrieval));
        GalleryCase { case: case.clone(), images: images.collect() }
    };
    comparison.cases.iter().map(case).filter(|case| !case.images.is_empty()).collect()
}

fn conditions(comparison: &Comparison) -> Vec<ConditionView> {
    let mut views: Vec<ConditionView> = Vec::new();
    for run in &comparison.runs {
        if views.iter().any(|view| (&view.case, view.seed) == (&run.case, run.seed())) {
            continue;
        }
        let kinds = [Condition::Data, Condition::Labels, Condition::Initialisation, Condition::Batches];
        let together = comparison.of_case(&run.case);
        let value = |condition: &Condition| {
            let all: BTreeSet<String> =
                together.iter().filter(|other| other.seed() == run.seed()).map(|other| condition.of(other)).collect();
            if all.len() > 1 { format!("{} different", all.len()) } else { agreement::short(&condition.of(run)).into() }
        };
        let values = kinds.iter().map(value).collect();
        views.push(ConditionView { case: run.case.clone(), seed: run.seed(), values });
    }
    views.sort_by_key(|view| (comparison.cases.iter().position(|case| *case == view.case), view.seed));
    views
}

fn made_with(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let distinct = |of: &dyn Fn(&ReportedRun) -> Option<String>| {
        comparison.runs.iter().filter_map(of).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let manifest = |run: &ReportedRun| run.manifest.clone();
    let facts = [
        ("curricle", distinct(&|run| manifest(run).map(|m| m.curricle))),
        ("libtorch", distinct(&|run| manifest(run).map(|m| m.libtorch))),
        ("device", distinct(&|run| manifest(run).map(|m| m.device))),
        ("threads", distinct(&|run| manifest(run).map(|m| m.threads.to_string()))),
        ("evaluated on", distinct(&|run| Some(format!("{} classes", Condition::Evaluation.of(run))))),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn run_view(run: &ReportedRun, main: Option<&Measure>) -> RunView {
    RunView {
        method: run.method.clone(),
        case: run.case.clone(),
        seed: run.seed(),
        value: shown(run, main),
        epochs: run.result.epochs,
        seconds: format!("{:.1}", run.result.seconds),
        device: run.manifest.as_ref().map_or_else(String::new, |manifest| manifest.device.clone()),
        folder: run.folder.display().to_string(),
    }
}

fn shown(run: &ReportedRun, main: Option<&Measure>) -> String {
    main.and_then(|main| Some(main.show(main.of(run)?))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_marked_and_everything_is_escaped() {
        assert_eq!(code("a `b<c` & d"), "a <code>b&lt;c</code> &amp; d");
        assert_eq!(code("a `b` c ` d"), "a <code>b</code> c ` d");
    }
}
