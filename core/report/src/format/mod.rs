//! The formats a report can be written in.

mod csv;
mod html;
mod json;
mod latex;
mod markdown;
mod names;
mod text;

pub use csv::csv;
pub use html::{Page, html};
pub use json::json;
pub use latex::latex;
pub use markdown::markdown;
pub use text::text;
