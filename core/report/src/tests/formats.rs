//! Tables in every format.

use super::*;

fn cub(runs: Vec<ReportedRun>) -> Vec<ReportedRun> {
    let mut runs: Vec<ReportedRun> = runs.into_iter().filter(|run| run.case == "noisy").collect();
    for run in &mut runs {
        run.settings["data"]["source"] = json!("cub200");
    }
    runs
}

#[test]
fn tables_match_their_snapshots_in_every_format() {
    let comparison = compared(fixture::runs());
    let summary = Summary::new(&comparison, &against_ms()).unwrap();
    let layout_of = |comparison: &Comparison, summary: &Summary| layout("A title", comparison, summary);
    let whole = layout_of(&comparison, &summary);
    insta::assert_snapshot!("text", format::text(&whole, false));
    insta::assert_snapshot!("markdown", format::markdown(&whole));
    insta::assert_snapshot!("latex", format::latex(&whole, &summary));
    assert!(format::text(&whole, true).contains("\u{1b}[1m"), "bold");
    assert!(!format::text(&whole, false).contains('\u{1b}'));

    let published = compared(cub(fixture::runs()));
    let summary =
        Summary::new(&published, &SummaryOptions { metrics: vec!["recall@1".into()], ..Default::default() }).unwrap();
    insta::assert_snapshot!("text_published", format::text(&layout_of(&published, &summary), false));
}

#[test]
fn special_characters_in_names_are_escaped_in_every_format() {
    let hostile = r#"a|b_<i>&%${}\`"#;
    let mut runs = fixture::runs();
    runs.iter_mut().filter(|run| run.method == "ms").for_each(|run| run.method = hostile.into());
    let comparison = compared(runs);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let layout = layout(hostile, &comparison, &summary);
    let markdown = format::markdown(&layout);
    assert!(markdown.contains(r"a\|b\_&lt;i&gt;&amp;%${}\\\`"), "{markdown}");
    let latex = format::latex(&layout, &summary);
    assert!(latex.contains(r"a$|$b\_$<$i$>$\&\%\$\{\}\textbackslash{}"), "{latex}");
    let figures = Figures::draw(&comparison, &summary);
    let page = format::Page { comparison: &comparison, summary: &summary, layout: &layout, figures: &figures };
    let html = format::html(&page).unwrap();
    assert!(html.contains("a|b_&lt;i&gt;&amp;%${}\\`"), "the name is on the page");
    assert!(!html.contains("<i>"));
}

#[test]
fn csv_and_json_contain_every_number() {
    let comparison = compared(fixture::runs());
    let summary = Summary::new(&comparison, &against_ms()).unwrap();
    let csv = format::csv(&summary).unwrap();
    let mut table = csv::Reader::from_reader(csv.as_bytes());
    let titles = table.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = table.records().map(|row| row.unwrap()).collect();
    // Two cases: untrained with three metrics, two methods with three and one with four.
    assert_eq!(rows.len(), 2 * (3 + 3 + 3 + 4));
    let field = |row: &csv::StringRecord, name: &str| row[titles.iter().position(|t| t == name).unwrap()].to_string();
    let row = rows
        .iter()
        .find(|row| field(row, "method") == "bspml" && field(row, "case") == "noisy" && field(row, "metric") == "nmi")
        .unwrap();
    let value = &summary.row("bspml", "noisy").unwrap().values["nmi"];
    assert_eq!(field(row, "mean").parse::<f64>().unwrap(), value.spread.mean);
    assert_eq!(field(row, "p").parse::<f64>().unwrap(), value.against.unwrap().p.unwrap());
    assert_eq!((field(row, "seeds"), field(row, "rank")), ("0 1 2".into(), "1".into()));

    let json = format::json(&comparison, &summary);
    assert_eq!(json["rows"].as_array().unwrap().len(), 8);
    let row = json["rows"].as_array().unwrap().iter().find(|r| r["method"] == "bspml" && r["case"] == "noisy").unwrap();
    assert_eq!(row["values"]["nmi"]["mean"], json!(value.spread.mean));
    assert_eq!(row["values"]["nmi"]["interval"][0], json!(value.spread.interval.unwrap()[0]));
    assert_eq!(json["runs"].as_array().unwrap().len(), 18);
}

#[test]
fn losses_and_weights_form_one_table_in_every_format() {
    let comparison = compared(losses_and_weights());
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let whole = layout("", &comparison, &summary);
    let table = &whole.tables[0];
    assert_eq!(table.title, "R@1 by loss and weights: noisy");
    assert_eq!(table.columns, ["loss", "no weights", "balanced self paced", "oracle"]);
    let shown: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(table::Cell::plain).collect()).collect();
    assert!(shown.contains(&["snr", "52.5 ± 0.7", "62.5 ± 0.7", "72.5 ± 0.7"].map(String::from).to_vec()), "{shown:?}");
    let figures = Figures::default();
    let page = format::Page { comparison: &comparison, summary: &summary, layout: &whole, figures: &figures };
    for (format, text) in [
        ("text", format::text(&whole, false)),
        ("markdown", format::markdown(&whole)),
        ("latex", format::latex(&whole, &summary)),
        ("html", format::html(&page).unwrap()),
    ] {
        assert!(text.contains("by loss and weights") && text.contains("no weights"), "{format}: {text}");
    }
    let csv = format::csv(&summary).unwrap();
    assert!(csv.lines().any(|line| line.ends_with(",snr,balanced_self_paced")), "{csv}");
    assert_eq!(format::json(&comparison, &summary)["rows"][1]["loss"], "ms");
    let one_scheme = fixture::runs();
    let comparison = compared(one_scheme);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    assert!(layout("", &comparison, &summary).tables.iter().all(|table| !table.title.contains("by loss")));
}

#[test]
fn latex_tables_compile() {
    let hostile = r#"a|b_<i>&%${}\`λμ±−–"#;
    let mut runs = fixture::runs();
    runs.iter_mut().filter(|run| run.method == "contrastive").for_each(|run| run.method = hostile.into());
    let mut documents = Vec::new();
    for runs in [runs, many_weights()] {
        let comparison = compared(runs);
        let against = SummaryOptions { against: comparison.methods.first().cloned(), ..Default::default() };
        let summary = Summary::new(&comparison, &against).unwrap();
        documents.push(format::latex(&layout(hostile, &comparison, &summary), &summary));
    }
    assert!(documents[0].contains("**") && documents[0].contains("\\scriptsize"), "{}", documents[0]);
    // Wide tables: smaller type and headings in two lines, so that they fit the text width.
    assert!(documents[1].contains("\\footnotesize") && documents[1].contains("\\shortstack"), "{}", documents[1]);
    let pdflatex = std::process::Command::new("pdflatex").arg("--version").output();
    if let Err(why) = pdflatex {
        return skip::skip("LaTeX tables", &format!("`pdflatex` does not start: {why}; run `scripts/setup --latex`"));
    }
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{}\\end{{document}}\n",
        documents.join("\n")
    );
    std::fs::write(folder.path().join("tables.tex"), text).unwrap();
    let arguments = ["-halt-on-error", "-interaction=nonstopmode", "tables.tex"];
    let compiled = std::process::Command::new("pdflatex").args(arguments).current_dir(&folder).output().unwrap();
    let log = String::from_utf8_lossy(&compiled.stdout);
    assert!(compiled.status.success() && !log.contains("Overfull"), "{log}");
}
