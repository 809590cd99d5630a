//! LaTeX tables as papers print them; they need only `booktabs`.

use crate::Summary;
use crate::table::{Cell, Content, Mark, ReportLayout, ReportTable};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Columns of a table in ordinary type.
const ORDINARY: usize = 5;

/// The compact tables: methods × cases, or methods × metrics of a single case, and losses × weights.
pub fn latex(layout: &ReportLayout, summary: &Summary) -> String {
    let mut text = String::from("% needs \\usepackage{booktabs}\n");
    for (index, table) in layout.compact.iter().enumerate() {
        write_table(&mut text, table, index + 1, &caption(table, layout, summary));
    }
    text
}

/// What the table shows, how to read it, and what to know before drawing conclusions; nothing about other tables.
fn caption(table: &ReportTable, layout: &ReportLayout, summary: &Summary) -> String {
    let cells = || table.rows.iter().flatten();
    let several = cells().any(|cell| matches!(cell.content, Content::Number { std: Some(_), .. }));
    let unit = if summary.metrics.iter().all(|measure| measure.percent) { " in %" } else { "" };
    let seeds: BTreeSet<usize> = summary.rows.iter().filter(|row| row.trained).map(|row| row.seeds.len()).collect();
    let seeds = match seeds.iter().collect::<Vec<_>>().as_slice() {
        [1] => ", one seed".to_string(),
        [n] => format!(" over {n} seeds"),
        _ => " over seeds".into(),
    };
    let mean = if several { format!(", mean ± standard deviation{seeds}") } else { seeds };
    let mut parts = vec![format!("{}. Values after the last epoch{unit}{mean}.", table.title)];
    match (cells().any(|cell| cell.mark == Mark::Best), cells().any(|cell| cell.mark == Mark::Second)) {
        (true, true) => parts.push("Best in bold, second best underlined.".into()),
        (true, false) => parts.push("Best in bold.".into()),
        _ => {}
    }
    if let (Some(against), true) = (&summary.against, cells().any(|cell| !cell.stars.is_empty())) {
        let test = summary.test.title();
        parts.push(format!("* p < 0.05, ** p < 0.01 against `{against}` ({test}, Holm-corrected over methods)."));
    }
    parts.extend(layout.caveats.iter().map(|caveat| format!("Note: {caveat}.")));
    escaped(&parts.join(" "))
}

fn write_table(text: &mut String, table: &ReportTable, number: usize, caption: &str) {
    let alignment = "r".repeat(table.columns.len() - 1);
    let titles: Vec<String> = table.columns.iter().map(|title| heading(title)).collect();
    // As large as fits the text width of the standard classes.
    let size = if table.columns.len() > ORDINARY { "\\footnotesize\n\\setlength{\\tabcolsep}{5pt}\n" } else { "" };
    let _ = writeln!(text, "\\begin{{table}}[t]\n\\centering");
    let _ = writeln!(text, "\\caption{{{caption}}}");
    // The standard classes leave no space between a caption and the table below it.
    let _ = writeln!(
        text,
        "\\label{{tab:report-{number}}}\n\\smallskip\n{size}\\begin{{tabular}}{{l{alignment}}}\n\\toprule"
    );
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

/// The title of a column, in lines of about equal length if it is long.
fn heading(title: &str) -> String {
    let middle = title.len() / 2;
    let space = title.match_indices(' ').map(|(at, _)| at).min_by_key(|at| at.abs_diff(middle));
    match space {
        Some(at) if title.chars().count() > 12 => {
            format!("\\shortstack[r]{{{}\\\\{}}}", escaped(&title[..at]), escaped(&title[at + 1..]))
        }
        _ => escaped(title),
    }
}

fn cell(cell: &Cell) -> String {
    let (number, std) = match &cell.content {
        Content::Nothing => return "--".into(),
        Content::Text(text) => return escaped(text),
        Content::Interval(low, high) => return format!("${low}$--${high}$"),
        Content::Signed(difference) => (difference, None),
        Content::Number { mean, std } => (mean, std.as_ref()),
    };
    let number = match cell.mark {
        Mark::Best => format!("$\\mathbf{{{number}}}$"),
        Mark::Second => format!("\\underline{{${number}$}}"),
        Mark::None => format!("${number}$"),
    };
    let std = std.map_or_else(String::new, |std| format!("{{\\scriptsize$\\,\\pm\\,{std}$}}"));
    // Without width, so that numbers align whether they have stars or not.
    let stars = if cell.stars.is_empty() { String::new() } else { format!("\\rlap{{$^{{{}}}$}}", cell.stars) };
    format!("{number}{std}{stars}")
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
