//! What commands print.

use comfy_table::{Table, presets};
use curricle_engine::{Error, Result};
use serde::Serialize;
use std::io::Write;

/// Prints a line to standard output. A reader that left (`| head`) is not an error.
pub fn line(text: &str) -> Result<()> {
    match writeln!(anstream::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::Failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
pub fn json(value: &impl Serialize) -> Result<()> {
    line(&serde_json::to_string_pretty(value).map_err(|e| Error::Failed(e.to_string()))?)
}

/// Prints a remark to standard error, so that standard output holds results only.
pub fn note(text: &str) {
    curricle_engine::track::progress::print(&format!("{text}\n"));
}

/// An empty table with these titles.
pub fn table(titles: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(titles);
    table
}
