//! Tables for terminals.

use crate::table::{Cell, Mark, ReportLayout, ReportTable};
use comfy_table::{Attribute, CellAlignment, presets};
use std::fmt::Write;

/// The tables as text. Ranks are superscript digits, so that they show without styling too.
pub fn text(layout: &ReportLayout, styled: bool) -> String {
    let mut text = String::new();
    for table in &layout.tables {
        if layout.tables.len() > 1 {
            let _ = writeln!(text, "{}", table.title);
        }
        let _ = writeln!(text, "{}", drawn(table, styled));
    }
    let ranked = layout.tables.iter().flat_map(|table| table.rows.iter().flatten()).any(|cell| cell.mark != Mark::None);
    for note in layout.notes.iter().cloned().chain(ranked.then(|| "¹ best, ² second.".to_string())) {
        let _ = writeln!(text, "{note}");
    }
    for caveat in &layout.caveats {
        let _ = writeln!(text, "Note: {caveat}.");
    }
    text
}

fn drawn(table: &ReportTable, styled: bool) -> comfy_table::Table {
    let mut drawn = comfy_table::Table::new();
    drawn.load_style(presets::UTF8_FULL_CONDENSED).set_header(&table.columns);
    if styled {
        drawn.enforce_styling()
    } else {
        drawn.force_no_tty()
    };
    let marked: Vec<bool> =
        (0..table.columns.len()).map(|i| table.rows.iter().any(|row| row[i].mark != Mark::None)).collect();
    let stars: Vec<usize> = (0..table.columns.len()).map(|i| table.stars(i)).collect();
    for row in &table.rows {
        drawn.add_row(row.iter().enumerate().map(|(i, one)| cell(one, i > 0, marked[i], stars[i])));
    }
    drawn
}

fn cell(cell: &Cell, number: bool, column_has_marks: bool, stars: usize) -> comfy_table::Cell {
    let rank = match cell.mark {
        Mark::Best => " ¹",
        Mark::Second => " ²",
        Mark::None if column_has_marks => "  ",
        Mark::None => "",
    };
    let room = " ".repeat(stars - cell.stars.len());
    let drawn = comfy_table::Cell::new(cell.plain() + &room + rank);
    let drawn = if number { drawn.set_alignment(CellAlignment::Right) } else { drawn };
    match cell.mark {
        Mark::Best => drawn.add_attribute(Attribute::Bold),
        Mark::Second => drawn.add_attribute(Attribute::Underlined),
        Mark::None => drawn,
    }
}
