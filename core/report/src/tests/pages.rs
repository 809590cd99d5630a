//! Figures and the HTML page.

use super::*;

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
    const VOID: [&str; 4] = ["meta", "img", "br", "wbr"];
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
fn kinds_of_noise_are_separate_lines_that_start_at_clean_labels() {
    let mut runs = vec![fixture::run("ms", "clean", 0, 0.7)];
    for (kind, recall) in [("similar", 0.5), ("uniform", 0.6)] {
        let mut run = fixture::run("ms", kind, 0, recall);
        run.settings["noise"] = json!({ "name": kind, "ratio": 0.2 });
        runs.push(run);
    }
    let comparison = compared(runs);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let figures = Figures::draw(&comparison, &summary);
    let figure = figures.drawn.iter().find(|figure| figure.name == "recall-1-against-noise").unwrap();
    for line in ["ms, similar noise: 70.0 at 0, 50.0 at 20.", "ms, uniform noise: 70.0 at 0, 60.0 at 20."] {
        assert!(figure.svg.contains(line), "no {line} in {}", figure.svg);
    }
}

#[test]
fn figures_of_many_methods_take_the_width_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    losses_and_weights().iter().for_each(|run| fixture::write(run, folder.path()));
    let comparison = Comparison::new(find(&[folder.path().to_path_buf()]).unwrap(), &Selection::default()).unwrap();
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let figures = Figures::draw(&comparison, &summary);
    let layout = layout("", &comparison, &summary);
    let page = format::Page { comparison: &comparison, summary: &summary, layout: &layout, figures: &figures };
    let html = format::html(&page).unwrap();
    let wide: Vec<&str> =
        figures.drawn.iter().filter(|figure| figure.wide).map(|figure| figure.name.as_str()).collect();
    assert_eq!(wide, ["memorisation-noisy", "loss-noisy", "objective-noisy"]);
    assert_eq!(html.matches("<figure class=\"wide\"").count(), wide.len());
    assert!(html.contains("<summary>noisy: 9 methods</summary>"), "many retrievals are folded away");
    assert_balanced(&html);
}
