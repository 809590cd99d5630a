//! `curricle report`

use crate::error::{Error, Result};
use crate::output;
use clap::ValueEnum;
use curricle_record::files;
use curricle_report::figures::Figures;
use curricle_report::{Comparison, Selection, Summary, SummaryOptions, Test, find, format, table};
use std::path::{Path, PathBuf};

/// Summarise runs in tables, figures and an HTML page.
///
/// Values are means over seeds; methods are compared only where all of them saw the same data,
/// labels, initial parameters and batches. Folders without a finished run are reported and skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    curricle report runs/robustness --against ms\n  \
    curricle report runs --metrics recall@1,recall@8,nmi --format latex --out table.tex\n  \
    curricle report runs --out report.html --figures figures\n  \
    curricle report runs --by noise.ratio --methods ms,bspml")]
pub(crate) struct Args {
    /// Run folders, or folders that contain them.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Output format. Default: from the extension of `--out`, else `table`.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Same as `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the report to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Metrics to show, the main one first, e.g. `recall@1,nmi,map@r,auroc`.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    metrics: Vec<String>,
    /// Methods to show, in this order.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    methods: Vec<String>,
    /// Case to show; may be repeated.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Group runs into cases by a setting, e.g. `noise.ratio`, instead of by case name; may be
    /// repeated.
    #[arg(long, value_name = "SETTING")]
    by: Vec<String>,
    /// Test every other method against this one; runs are paired by seed.
    #[arg(long, value_name = "METHOD")]
    against: Option<String>,
    /// Statistical test.
    #[arg(long, value_enum, default_value = "t", requires = "against")]
    test: TestChoice,
    /// Compare methods even if they differ in this; the report notes it.
    #[arg(long, value_enum, value_name = "CONDITION")]
    allow: Option<Allowed>,
    /// Also write all figures that the runs support to this folder, as SVG files.
    #[arg(long, value_name = "FOLDER")]
    figures: Option<PathBuf>,
    /// Title of the report. Default: the common part of the runs' names.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Table for the terminal.
    Table,
    /// Markdown.
    Md,
    /// LaTeX with booktabs.
    Latex,
    /// All values, one line per method, case and metric.
    Csv,
    /// All data as JSON.
    Json,
    /// HTML page with tables, figures, settings and retrievals.
    Html,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TestChoice {
    /// Paired t-test.
    T,
    /// Exact Wilcoxon signed-rank test.
    Wilcoxon,
    /// Exact sign-flip test.
    SignFlip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Allowed {
    /// Batches, for methods with their own sampler.
    Batches,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let format = chosen_format(args)?;
    let found = find(&args.runs)?;
    for skipped in &found.skipped {
        output::note(&format!("skipped `{}`: {}", skipped.folder.display(), skipped.reason));
    }
    let selection = Selection {
        methods: args.methods.clone(),
        cases: args.cases.clone(),
        by: args.by.clone(),
        allow_batches: matches!(args.allow, Some(Allowed::Batches)),
    };
    let comparison = Comparison::new(found, &selection)?;
    let test = match args.test {
        TestChoice::T => Test::T,
        TestChoice::Wilcoxon => Test::Wilcoxon,
        TestChoice::SignFlip => Test::SignFlip,
    };
    let questions = SummaryOptions { metrics: args.metrics.clone(), against: args.against.clone(), test };
    let summary = Summary::new(&comparison, &questions)?;
    let title = args.title.clone().unwrap_or_else(|| comparison.title());
    let layout = table::layout(&title, &comparison, &summary);
    let figures = (args.figures.is_some() || format == Format::Html).then(|| Figures::draw(&comparison, &summary));
    let text = match format {
        Format::Table => format::text(&layout, args.out.is_none() && output::styled()),
        Format::Md => format::markdown(&layout),
        Format::Latex => format::latex(&layout, &summary),
        Format::Csv => format::csv(&summary)?,
        Format::Json => format!("{:#}\n", format::json(&comparison, &summary)),
        Format::Html => {
            let figures = figures.clone().unwrap_or_default();
            format::html(&format::Page {
                comparison: &comparison,
                summary: &summary,
                layout: &layout,
                figures: &figures,
            })?
        }
    };
    for figure in figures.iter().flat_map(|figures| &figures.damaged) {
        output::note(&format!("warning: {} are missing: {}", figure.title, figure.reason));
    }
    if let (Some(folder), Some(figures)) = (&args.figures, &figures) {
        write_figures(folder, figures)?;
    }
    match &args.out {
        Some(path) => {
            files::write(path, text.as_bytes())?;
            output::note(&format!("wrote `{}`", path.display()));
            Ok(())
        }
        None => output::print(&text),
    }
}

/// The format given, or else the one that the extension of `--out` implies.
fn chosen_format(args: &Args) -> Result<Format> {
    if let Some(format) = args.json.then_some(Format::Json).or(args.format) {
        return Ok(format);
    }
    let Some(path) = &args.out else { return Ok(Format::Table) };
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "md" | "markdown" => Ok(Format::Md),
        "tex" => Ok(Format::Latex),
        "csv" => Ok(Format::Csv),
        "json" => Ok(Format::Json),
        "html" | "htm" => Ok(Format::Html),
        "txt" => Ok(Format::Table),
        _ => Err(Error::usage(format!(
            "cannot tell the format from the name `{}`; add `--format table|md|latex|csv|json|html`",
            path.display()
        ))),
    }
}

fn write_figures(folder: &Path, figures: &Figures) -> Result<()> {
    let written = figures.write(folder)?;
    for path in &written {
        output::note(&format!("wrote `{}`", path.display()));
    }
    for figure in &figures.not_drawn {
        output::note(&format!("not drawn: {}: {}", figure.title, figure.reason));
    }
    Ok(())
}
