use super::*;
use crate::Result;
use crate::agreement::Condition;
use crate::figures::Figures;
use crate::table::layout;
use serde_json::json;
use std::path::Path;

#[allow(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../../../tests/support/skip.rs"]
mod skip;

fn found(runs: Vec<ReportedRun>) -> FoundRuns {
    FoundRuns { runs, skipped: Vec::new() }
}

fn compared(runs: Vec<ReportedRun>) -> Comparison {
    Comparison::new(found(runs), &Selection::default()).unwrap()
}

fn against_ms() -> SummaryOptions {
    SummaryOptions { against: Some("ms".into()), ..Default::default() }
}

#[track_caller]
fn refusal(runs: Vec<ReportedRun>) -> String {
    Comparison::new(found(runs), &Selection::default()).unwrap_err().to_string()
}

/// Writes the runs of the fixture to folders, reads them back and summarises them.
fn from_folders(folder: &Path) -> Result<(Comparison, Summary)> {
    fixture::runs().iter().for_each(|run| fixture::write(run, folder));
    let comparison = Comparison::new(find(&[folder.to_path_buf()])?, &Selection::default())?;
    let summary = Summary::new(&comparison, &against_ms())?;
    Ok((comparison, summary))
}

#[test]
fn runs_are_found_recursively_and_skipped_folders_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (comparison, _) = from_folders(folder.path()).unwrap();
    assert_eq!(comparison.runs.len(), 18);
    assert!(comparison.skipped.is_empty());

    let unfinished = fixture::run("ms", "noisy", 3, 0.5);
    fixture::write(&unfinished, folder.path());
    std::fs::remove_file(folder.path().join(&unfinished.folder).join("result.json")).unwrap();
    let broken = fixture::run("snr", "noisy", 0, 0.5);
    fixture::write(&broken, folder.path());
    std::fs::write(folder.path().join(&broken.folder).join("result.json"), "{").unwrap();
    let copy = folder.path().join("copy");
    fixture::write(&fixture::run("bspml", "clean", 0, 0.75), &copy);

    let comparison = Comparison::new(find(&[folder.path().into()]).unwrap(), &Selection::default()).unwrap();
    let reasons: Vec<&str> = comparison.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("not finished")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("cannot be parsed")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.starts_with("duplicate of")), "{reasons:?}");
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    assert_eq!(summary.row("ms", "noisy").unwrap().missing, 1, "the unfinished one");
    assert!(summary.caveats.iter().any(|caveat| caveat.contains("3 folders were skipped")), "{:?}", summary.caveats);

    // A folder given twice counts once, and so does one within another.
    let twice = find(&[folder.path().into(), copy, folder.path().into()]).unwrap();
    assert_eq!(twice.runs.len(), 19);
    let empty = tempfile::tempdir().unwrap();
    assert!(find(&[empty.path().into()]).unwrap_err().to_string().contains("no run found in"));
    assert!(find(&[empty.path().join("x")]).unwrap_err().to_string().contains("is not a folder"));
}

#[test]
fn runs_with_different_labels_are_refused_with_the_setting_and_both_values() {
    let mut runs = fixture::runs();
    let other = runs.iter_mut().find(|run| run.method == "bspml" && run.case == "noisy" && run.seed() == 1).unwrap();
    other.result.conditions.labels = "f".repeat(64);
    other.settings["noise"]["ratio"] = json!(0.3);
    let message = refusal(runs);
    for part in [
        "training labels differ in case `noisy`, seed 1",
        "ffffffffffff",
        "bspml, seed 1: runs/fixture/bspml-",
        "ms, seed 1: runs/fixture/ms-",
        "noise.ratio = 0.2 (contrastive, ms), 0.3 (bspml)",
        "--by SETTING",
    ] {
        assert!(message.contains(part), "no {part} in\n{message}");
    }
}

#[test]
fn conditions_are_checked_within_a_case_but_not_between_cases() {
    type Change = fn(&mut ReportedRun);
    let change: [(Condition, Change); 5] = [
        (Condition::Data, |run| run.result.conditions.data = "x".into()),
        (Condition::Labels, |run| run.result.conditions.labels = "x".into()),
        (Condition::Initialisation, |run| run.result.conditions.initialisation = "x".into()),
        (Condition::Batches, |run| run.result.batches = "x".into()),
        (Condition::Evaluation, |run| run.settings["eval"] = json!({ "on": "validation" })),
    ];
    for (condition, change) in change {
        let mut runs = fixture::runs();
        change(runs.iter_mut().find(|run| run.method == "ms" && run.case == "clean").unwrap());
        assert!(refusal(runs).contains(condition.title()), "{condition:?}");
        let mut runs = fixture::runs();
        runs.iter_mut().filter(|run| run.case == "clean").for_each(change);
        compared(runs);
    }
}

#[test]
fn different_batches_can_be_allowed_and_become_a_caveat() {
    let mut runs = fixture::runs();
    runs.iter_mut().filter(|run| run.method == "bspml").for_each(|run| run.result.batches = "b".repeat(64));
    assert!(refusal(runs.clone()).contains("--allow batches"));
    let selection = Selection { allow_batches: true, ..Default::default() };
    let comparison = Comparison::new(found(runs.clone()), &selection).unwrap();
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    assert!(summary.caveats[0].contains("not trained on the same batches"), "{:?}", summary.caveats);
    runs[0].result.conditions.data = "x".into();
    assert!(Comparison::new(found(runs), &selection).is_err(), "no other condition is allowed");
}

#[test]
fn repetitions_with_different_recipes_are_refused_unless_grouped_by_a_setting() {
    let mut runs: Vec<ReportedRun> = fixture::runs().into_iter().filter(|run| run.method == "ms").collect();
    for run in runs.iter_mut().filter(|run| run.case == "clean") {
        run.case = "noisy".into();
        run.result.seed += 3;
    }
    let message = refusal(runs.clone());
    assert!(message.contains("recipes of repetitions differ in case `noisy` for `ms`"), "{message}");
    assert!(
        message.contains("noise.name = uniform (seed 0, seed 1, seed 2), none (seed 3, seed 4, seed 5)"),
        "{message}"
    );
    let selection = Selection { by: vec!["noise.ratio".into()], ..Default::default() };
    let comparison = Comparison::new(found(runs.clone()), &selection).unwrap();
    assert_eq!(comparison.cases, ["no noise.ratio", "noise.ratio = 0.2"]);
    let selection = Selection { by: vec!["noise.ration".into()], ..Default::default() };
    assert!(Comparison::new(found(runs), &selection).is_err());
}

#[test]
fn methods_and_cases_have_a_default_order_and_can_be_selected() {
    let comparison = compared(fixture::runs());
    assert_eq!(comparison.methods, ["contrastive", "ms", "bspml"]);
    assert_eq!(comparison.cases, ["clean", "noisy"]);
    assert_eq!(comparison.title(), "fixture");
    let choose = |methods: &[&str]| Selection {
        methods: methods.iter().map(ToString::to_string).collect(),
        cases: vec!["noisy".into()],
        ..Default::default()
    };
    let chosen = Comparison::new(found(fixture::runs()), &choose(&["ms", "contrastive"])).unwrap();
    assert_eq!((chosen.methods, chosen.runs.len()), (vec!["ms".to_string(), "contrastive".into()], 6));
    let message = Comparison::new(found(fixture::runs()), &choose(&["mss"])).unwrap_err().to_string();
    assert!(message.contains("did you mean `ms`?"), "{message}");
}

#[test]
fn values_are_means_over_seeds_with_ranks_and_paired_tests() {
    let comparison = compared(fixture::runs());
    let summary = Summary::new(&comparison, &against_ms()).unwrap();
    let names: Vec<&str> = summary.metrics.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["recall@1", "nmi", "map@r", "auroc"]);
    let value = |method: &str| summary.row(method, "noisy").unwrap().values["recall@1"].clone();
    let (ms, bspml) = (value("ms"), value("bspml"));
    let mean = |values: [f64; 3]| values.iter().sum::<f64>() / 3.0;
    assert!((ms.spread.mean - mean([0.624, 0.61, 0.627])).abs() < 1e-12);
    assert_eq!((bspml.rank, ms.rank, value("contrastive").rank), (Some(1), Some(2), None));
    assert!((ms.gain.unwrap().mean - (ms.spread.mean - 0.3)).abs() < 1e-12);
    assert_eq!(ms.against, None);
    let test = bspml.against.unwrap();
    let pairs = [0.7224 - 0.624, 0.714 - 0.61, 0.7242 - 0.627];
    assert!((test.difference.mean - mean(pairs)).abs() < 1e-12);
    assert!((test.p.unwrap() - Test::T.p_value(&pairs).unwrap()).abs() < 1e-9);
    let other = value("contrastive").against.unwrap();
    let corrected = statistics::holm(&[test.p.unwrap(), other.p.unwrap()]);
    assert_eq!(corrected, [test.p_corrected.unwrap(), other.p_corrected.unwrap()]);
    let before = summary.of_case("noisy").next().unwrap();
    assert!(!before.trained && before.values["recall@1"].rank.is_none());
    assert_eq!(before.seeds, [0, 1, 2]);
}

#[test]
fn a_missing_seed_is_a_caveat_and_tests_use_the_common_seeds() {
    let mut runs = fixture::runs();
    runs.retain(|run| !(run.method == "bspml" && run.case == "noisy" && run.seed() == 2));
    let summary = Summary::new(&compared(runs), &against_ms()).unwrap();
    let row = summary.row("bspml", "noisy").unwrap();
    assert_eq!((row.missing, row.values["recall@1"].against.unwrap().difference.runs), (1, 2));
    let caveat = "1 run is missing for `bspml` in case `noisy`";
    assert!(summary.caveats.iter().any(|c| c.contains(caveat)), "{:?}", summary.caveats);
}

#[test]
fn unknown_metrics_and_methods_get_a_suggestion() {
    let comparison = compared(fixture::runs());
    let metrics = |name: &str| SummaryOptions { metrics: vec![name.into()], ..Default::default() };
    let message = Summary::new(&comparison, &metrics("recal@1")).unwrap_err().to_string();
    assert!(message.contains("did you mean `recall@1`?"), "{message}");
    assert!(Summary::new(&comparison, &metrics("Recall@8")).is_ok());
    let against = SummaryOptions { against: Some("bsplm".into()), ..Default::default() };
    let message = Summary::new(&comparison, &against).unwrap_err().to_string();
    assert!(message.contains("did you mean `bspml`?"), "{message}");
}

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
fn figures_are_valid_xml_and_contain_the_values() {
    let folder = tempfile::tempdir().unwrap();
    let (comparison, summary) = from_folders(folder.path()).unwrap();
    let figures = Figures::draw(&comparison, &summary);
    let names: Vec<&str> = figures.drawn.iter().map(|figure| figure.name.as_str()).collect();
    let expected = [
        "recall-1-against-noise",
        "memorisation-noisy",
        "curve-clean",
        "loss-clean",
        "loss-noisy",
        "objective-clean",
        "objective-noisy",
        "convergence-clean",
        "convergence-noisy",
        "auroc-clean",
        "weights-bspml-clean",
        "weights-bspml-noisy",
    ];
    assert_eq!(names, expected);
    let missing: Vec<&str> = figures.not_drawn.iter().map(|figure| figure.title.as_str()).collect();
    let expected =
        ["MAW against λ∞", "SDAW against λ∞", "MAW against μ", "SDAW against μ", "R@1 against embedding size"];
    assert_eq!(missing, expected);
    for figure in &figures.drawn {
        let document = roxmltree::Document::parse(&figure.svg).unwrap_or_else(|e| panic!("{}: {e}", figure.name));
        let root = document.root_element();
        let child = |name: &str| root.children().find(|node| node.has_tag_name(name)).and_then(|node| node.text());
        assert_eq!(child("title"), Some(figure.title.as_str()));
        assert!(child("desc").is_some_and(|text| text.len() > 40), "{}", figure.name);
        let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        assert!(ids.iter().all(|id| id.starts_with(figure.name.as_str())), "{ids:?}");
        assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"), "{}", figure.svg);
    }
    let tooltips = |name: &str| {
        let figure = figures.drawn.iter().find(|figure| figure.name == name).unwrap();
        let document = roxmltree::Document::parse(&figure.svg).unwrap();
        let titles = document.descendants().filter(|n| n.has_tag_name("title") && !n.has_attribute("id"));
        titles.filter_map(|node| node.text().map(str::to_string)).collect::<Vec<_>>()
    };
    let noise = tooltips("recall-1-against-noise");
    assert_eq!(noise.len(), 3 * 2, "{noise:?}");
    assert!(noise.contains(&"contrastive at 0: 65.5 (64.2 – 66.9)".to_string()), "{noise:?}");
    let weights = tooltips("weights-bspml-noisy");
    assert_eq!(weights, ["right label, weight 0.95 – 1.00: 100.0 %", "wrong label, weight 0.05 – 0.10: 100.0 %"]);
    assert_eq!(tooltips("objective-noisy").len(), 2 * 3, "after and before each of three rounds");
}

#[test]
fn varied_settings_become_axes_and_other_differences_become_lines() {
    let mut runs = Vec::new();
    for (i, (lambda, mu)) in [(1.0, 0.5), (2.0, 0.5), (1.0, 2.0), (2.0, 2.0)].into_iter().enumerate() {
        let case = format!("λ {lambda}, μ {mu}");
        let mut run = fixture::run("bspml", &case, 0, 0.7);
        run.settings["weights"]["lambda"] = json!({ "max": lambda });
        run.settings["weights"]["mu"] = json!(mu);
        run.settings["embedding"]["size"] = json!(64);
        run.result.weighting = vec![("maw".into(), 0.1 * lambda), ("sdaw".into(), 0.01 * i as f64)];
        runs.push(run);
    }
    let comparison = compared(runs);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let figures = Figures::draw(&comparison, &summary);
    let svg = |name: &str| figures.drawn.iter().find(|figure| figure.name == name).map(|figure| figure.svg.clone());
    let against_lambda = svg("maw-against-lambda").unwrap();
    for part in ["bspml, weights.mu 0.5", "bspml, weights.mu 2.0", "at 2: 0.200"] {
        assert!(against_lambda.contains(part), "no {part} in {against_lambda}");
    }
    assert!(svg("sdaw-against-mu").unwrap().contains("bspml, weights.lambda.max 1.0"));
    assert!(svg("recall-1-against-embedding").is_none());
}

#[test]
fn the_page_is_complete_and_self_contained() {
    let folder = tempfile::tempdir().unwrap();
    let (comparison, summary) = from_folders(folder.path()).unwrap();
    let figures = Figures::draw(&comparison, &summary);
    let layout = layout("A <title>", &comparison, &summary);
    let page = format::Page { comparison: &comparison, summary: &summary, layout: &layout, figures: &figures };
    let html = format::html(&page).unwrap();
    let drawings = figures.drawn.iter().map(|figure| figure.svg.matches("<svg").count());
    assert_eq!(html.matches("<svg").count(), drawings.sum::<usize>());
    assert_eq!(html.matches("src=\"data:image/png;base64,iVBOR").count(), 6, "one for each method and case");
    for part in ["<title>A &lt;title&gt;</title>", "id=\"results\"", "id=\"conditions\"", "<code>weights.name</code>"] {
        assert!(html.contains(part), "no {part}");
    }
    assert!(!html.contains("<script") && !html.contains("@import") && !html.contains("url(http"));
    let links = html.match_indices("http").filter(|(at, _)| !html[*at..].starts_with("http://www.w3.org/2000/svg"));
    assert_eq!(links.count(), 0);
    assert_balanced(&html);
    let mut ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id occurs twice");
    assert!(!html.contains(&folder.path().display().to_string()) || html.contains("class=\"path\""));
}

/// Every element that is opened is closed, in order.
fn assert_balanced(html: &str) {
    const VOID: [&str; 3] = ["meta", "img", "br"];
    let body = html.split("</style>").nth(1).unwrap();
    let mut open: Vec<&str> = vec!["html", "head"];
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("`<{tag}` has no end"));
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed by `</{name}>`");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} is not closed");
}

#[test]
fn grouping_by_a_setting_names_what_else_differs() {
    let mut runs: Vec<ReportedRun> = fixture::runs().into_iter().filter(|run| run.method != "bspml").collect();
    for run in runs.iter_mut().filter(|run| run.case == "noisy") {
        run.settings["train"]["epochs"] = json!(20);
    }
    let by = |setting: &str, runs: Vec<ReportedRun>| {
        let selection = Selection { by: vec![setting.into()], ..Default::default() };
        let comparison = Comparison::new(found(runs), &selection).unwrap();
        Summary::new(&comparison, &SummaryOptions::default()).unwrap().caveats
    };
    let caveat = "the cases also differ in `train.epochs`: 3 (no noise.ratio), 20 (noise.ratio = 0.2)";
    assert_eq!(by("noise.ratio", runs), [caveat], "the noise itself is what they differ in");
    assert!(by("noise.ratio", fixture::runs()).is_empty());
}

/// Three losses, each plain and with two weight schemes, under noise.
fn losses_and_weights() -> Vec<ReportedRun> {
    let mut runs = Vec::new();
    for (i, loss) in ["ms", "snr", "fastap"].into_iter().enumerate() {
        for (j, weights) in ["uniform", "balanced_self_paced", "oracle"].into_iter().enumerate() {
            for seed in 0..2 {
                let recall = 0.5 + 0.02 * i as f64 + 0.1 * j as f64 + 0.01 * seed as f64;
                let method = curricle_record::default_method(loss, weights);
                let mut run = fixture::run(&method, "noisy", seed, recall);
                run.settings["loss"]["name"] = json!(loss);
                run.settings["weights"]["name"] = json!(weights);
                (run.result.loss, run.result.weights) = (loss.into(), weights.into());
                runs.push(run);
            }
        }
    }
    runs
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
    assert_eq!(format::json(&comparison, &summary)["rows"][1]["loss"], "fastap");
    let one_scheme = fixture::runs();
    let comparison = compared(one_scheme);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    assert!(layout("", &comparison, &summary).tables.iter().all(|table| !table.title.contains("by loss")));
}

#[test]
fn the_best_epoch_is_beside_the_last_and_marked_as_a_selection() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs: Vec<ReportedRun> = fixture::runs().into_iter().filter(|run| run.case == "noisy").collect();
    for run in &mut runs {
        fixture::write(run, folder.path());
        run.folder = folder.path().join(&run.folder);
        // Better in the second epoch than at the end.
        let path = run.folder.join("metrics.jsonl");
        let metrics = std::fs::read_to_string(&path).unwrap();
        let better = json!({ "step": 20, "epoch": 2, "tag": "eval/recall@1", "value": 0.9 });
        std::fs::write(&path, format!("{metrics}{better}\n")).unwrap();
    }
    let comparison = compared(runs);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let best = summary.row("ms", "noisy").unwrap().values["recall@1"].best_epoch.unwrap();
    assert_eq!((best.spread.mean, best.epoch), (0.9, 2.0));
    let text = format::text(&layout("", &comparison, &summary), false);
    assert!(text.contains("best epoch †") && text.contains("90.0 ± 0.0"), "{text}");
    assert!(text.contains("a selection on the test classes that no one can make"), "{text}");
}

#[test]
fn latex_tables_compile() {
    let hostile = r#"a|b_<i>&%${}\`λμ±−–"#;
    let mut runs = fixture::runs();
    runs.iter_mut().filter(|run| run.method == "contrastive").for_each(|run| run.method = hostile.into());
    let mut documents = Vec::new();
    for runs in [runs, losses_and_weights()] {
        let comparison = compared(runs);
        let against = SummaryOptions { against: comparison.methods.first().cloned(), ..Default::default() };
        let summary = Summary::new(&comparison, &against).unwrap();
        documents.push(format::latex(&layout(hostile, &comparison, &summary), &summary));
    }
    assert!(documents[0].contains("**") && documents[0].contains("\\scriptsize"), "{}", documents[0]);
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
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
}
