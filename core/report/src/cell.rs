//! Cells and tables, independent of the output format.

use crate::Measure;
use crate::summary::MetricValue;

/// The highlight of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// Not highlighted.
    #[default]
    None,
    /// The best of its column.
    Best,
    /// The second best.
    Second,
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Content {
    /// Nothing to show.
    #[default]
    Nothing,
    /// Plain text.
    Text(String),
    /// A number, with its standard deviation if there is one.
    Number {
        /// The number, or the mean of several.
        mean: String,
        /// Their standard deviation.
        std: Option<String>,
    },
    /// A difference: its sign is always shown.
    Signed(String),
    /// An interval from low to high.
    Interval(String, String),
}

/// A cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// Its content.
    pub content: Content,
    /// Its highlight.
    pub mark: Mark,
    /// How certain the difference from the method tested against is: `*` for p < 0.05, `**` for p < 0.01.
    pub stars: &'static str,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Content::Text(text.into()).into()
    }

    pub(crate) fn number(mean: String) -> Self {
        Content::Number { mean, std: None }.into()
    }

    /// Plain text, without its mark.
    pub fn plain(&self) -> String {
        let minus = |number: &str| number.replace('-', "−");
        let stars = self.stars;
        match &self.content {
            Content::Nothing => "–".into(),
            Content::Text(text) => text.clone(),
            Content::Number { mean, std: None } => format!("{}{stars}", minus(mean)),
            Content::Number { mean, std: Some(std) } => format!("{} ± {std}{stars}", minus(mean)),
            Content::Signed(difference) => minus(difference),
            Content::Interval(low, high) => format!("{} – {}", minus(low), minus(high)),
        }
    }
}

impl From<Content> for Cell {
    fn from(content: Content) -> Self {
        Self { content, mark: Mark::None, stars: "" }
    }
}

/// A table; its first column names the rows.
#[derive(Debug, Clone)]
pub struct ReportTable {
    /// What it shows.
    pub title: String,
    /// Titles of the columns.
    pub columns: Vec<String>,
    /// The rows; those of baselines first.
    pub rows: Vec<Vec<Cell>>,
    /// Number of baseline rows, which are visually separated.
    pub baselines: usize,
}

impl ReportTable {
    /// The greatest number of stars in a column, for which the other cells leave room so that numbers align.
    pub(crate) fn stars(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.stars.len()).max().unwrap_or(0)
    }
}

/// The mean of a metric, with its spread, its rank and how certain its difference is.
pub(crate) fn value_cell(measure: &Measure, value: &MetricValue) -> Cell {
    let mark = match value.rank {
        Some(1) => Mark::Best,
        Some(2) => Mark::Second,
        _ => Mark::None,
    };
    let mean = value.spread.mean;
    let std = value.spread.std.map(|std| measure.show_std(std, mean));
    let stars = match value.against.and_then(|against| against.p_corrected) {
        Some(p) if p < 0.01 => "**",
        Some(p) if p < 0.05 => "*",
        _ => "",
    };
    Cell { content: Content::Number { mean: measure.show(mean), std }, mark, stars }
}
