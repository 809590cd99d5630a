//! Markdown tables, in the extension that common hosts support.

use crate::table::{Cell, Mark, ReportLayout, ReportTable};
use std::fmt::Write;

/// The tables as Markdown: best in bold, second underlined.
pub fn markdown(layout: &ReportLayout) -> String {
    let mut text = String::new();
    if !layout.title.is_empty() {
        let _ = write!(text, "## {}\n\n", escaped(&layout.title));
    }
    for table in &layout.tables {
        if layout.tables.len() > 1 {
            let _ = write!(text, "### {}\n\n", escaped(&table.title));
        }
        write_table(&mut text, table);
        text.push('\n');
    }
    let ranked = layout.tables.iter().flat_map(|table| table.rows.iter().flatten()).any(|cell| cell.mark != Mark::None);
    let ranks = ranked.then(|| "**Best**, <ins>second</ins>.".to_string());
    let notes: Vec<String> = layout.notes.iter().cloned().chain(ranks).collect();
    let _ = writeln!(text, "{}", notes.join(" "));
    if !layout.caveats.is_empty() {
        text.push('\n');
    }
    for caveat in &layout.caveats {
        let _ = writeln!(text, "- {caveat}.");
    }
    text
}

fn write_table(text: &mut String, table: &ReportTable) {
    let titles: Vec<String> = table.columns.iter().map(|title| escaped(title)).collect();
    let _ = writeln!(text, "| {} |", titles.join(" | "));
    let lines: Vec<&str> = (0..titles.len()).map(|i| if i == 0 { "---" } else { "---:" }).collect();
    let _ = writeln!(text, "| {} |", lines.join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn cell(cell: &Cell) -> String {
    let plain = escaped(&cell.plain());
    match cell.mark {
        Mark::Best => format!("**{plain}**"),
        // `<u>` is removed by some hosts.
        Mark::Second => format!("<ins>{plain}</ins>"),
        Mark::None => plain,
    }
}

/// Escapes special characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' | '~' => escaped.extend(['\\', character]),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}
