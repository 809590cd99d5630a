//! Settings with several values, for `[sweep]` and `[tune]`.

mod axes;
mod labels;
mod paths;

pub(crate) use axes::{GridPoint, SweepAxis, count, grid, points, refuse_overlaps, zip};
pub(crate) use labels::{distinct_text, short_names, value_text};
pub(crate) use paths::{PathSetting, named};
