//! Reports: tables, figures and HTML pages from finished runs.
//!
//! Runs are read from their folders ([`find`]), grouped and checked for equal conditions
//! ([`Comparison`]), aggregated over seeds ([`Summary`]), laid out once ([`mod@table`]) and
//! rendered in one of several formats ([`mod@format`]).

pub mod agreement;
mod best_epoch;
mod case_title;
mod cell;
mod comparison;
mod difference;
mod error;
pub mod figures;
pub mod format;
mod grid;
mod measure;
mod published;
mod runs;
pub mod statistics;
mod summary;
pub mod table;

pub use best_epoch::BestEpoch;
pub use comparison::{Comparison, Selection};
pub use difference::{Difference, differences, shared};
pub use error::{Error, Result};
pub use measure::Measure;
pub use published::Published;
pub use runs::{FoundRuns, ReportedRun, RunKey, SkippedRun, find};
pub use statistics::{Spread, Test};
pub use summary::{MetricValue, PairedComparison, Summary, SummaryOptions, SummaryRow};

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
