//! LaTeX tables that need only `booktabs`.

use crate::table::{Cell, Content, Mark, ReportLayout, ReportTable};
use std::fmt::Write;

/// One `table` for each table; needs `\usepackage{booktabs}`.
pub fn latex(layout: &ReportLayout) -> String {
    let mut text = String::from("% needs \\usepackage{booktabs}\n");
    let ranked = layout.tables.iter().flat_map(|table| table.rows.iter().flatten()).any(|cell| cell.mark != Mark::None);
    let ranks = ranked.then(|| "Best in bold, second underlined.".to_string());
    let caveats = layout.caveats.iter().map(|caveat| format!("Note: {caveat}."));
    let notes: Vec<String> = layout.notes.iter().cloned().chain(ranks).chain(caveats).collect();
    let notes = escaped(&notes.join(" "));
    for (index, table) in layout.tables.iter().enumerate() {
        write_table(&mut text, table, index + 1, &notes);
    }
    text
}

fn write_table(text: &mut String, table: &ReportTable, number: usize, notes: &str) {
    let alignment = "r".repeat(table.columns.len() - 1);
    let titles: Vec<String> = table.columns.iter().map(|title| escaped(title)).collect();
    let _ = writeln!(text, "\\begin{{table}}[t]\n\\centering");
    let _ = writeln!(text, "\\caption{{{}. {notes}}}", escaped(&table.title));
    let _ = writeln!(text, "\\label{{tab:report-{number}}}\n\\begin{{tabular}}{{l{alignment}}}\n\\toprule");
    let _ = writeln!(text, "{} \\\\\n\\midrule", titles.join(" & "));
    for (index, row) in table.rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(cell).collect();
        let _ = writeln!(text, "{} \\\\", cells.join(" & "));
        if index + 1 == table.baselines && table.baselines < table.rows.len() {
            let _ = writeln!(text, "\\midrule");
        }
    }
    let _ = writeln!(text, "\\bottomrule\n\\end{{tabular}}\n\\end{{table}}");
}

fn cell(cell: &Cell) -> String {
    let maths = match &cell.content {
        Content::Nothing => return "--".into(),
        Content::Text(text) => return escaped(text),
        Content::Number { mean, std: None } => mean.clone(),
        Content::Number { mean, std: Some(std) } => format!("{mean} \\pm {std}"),
        Content::Signed(difference) => difference.clone(),
        Content::Interval(low, high) => return format!("${low}$--${high}$"),
    };
    match cell.mark {
        Mark::Best => format!("$\\mathbf{{{maths}}}$"),
        Mark::Second => format!("\\underline{{${maths}$}}"),
        Mark::None => format!("${maths}$"),
    }
}

/// Escapes special characters; a pair of backticks becomes `\texttt`.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    let mut in_code = false;
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', character]),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("$<$"),
            '>' => escaped.push_str("$>$"),
            '|' => escaped.push_str("$|$"),
            '±' => escaped.push_str("$\\pm$"),
            '−' => escaped.push_str("$-$"),
            '–' => escaped.push_str("--"),
            'λ' => escaped.push_str("$\\lambda$"),
            'μ' => escaped.push_str("$\\mu$"),
            '\n' | '\r' => escaped.push(' '),
            '`' => {
                escaped.push_str(if in_code { "}" } else { "\\texttt{" });
                in_code = !in_code;
            }
            _ => escaped.push(character),
        }
    }
    if in_code {
        escaped.push('}');
    }
    escaped
}
