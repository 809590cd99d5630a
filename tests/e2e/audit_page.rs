//! The page of an audit in a browser: a person decides, and the program and the next recipe read the decisions.

use crate::audit::{finished, recipe, rows};
use crate::support::browser::Browser;
use crate::support::{Printed, Sandbox, run_folder};
use serde_json::json;
use std::collections::HashMap;

/// The suspect with this rank, as a selector.
fn card(rank: usize) -> String {
    format!("#suspect-{rank}")
}

/// What the page shows as decided about the first suspects.
fn decisions(browser: &mut Browser) -> String {
    let all = browser
        .value("[...document.querySelectorAll('#suspects article')].map((card) => card.dataset.decision).join()");
    all.as_str().unwrap().to_string()
}

fn focused(browser: &mut Browser) -> String {
    browser.value("document.activeElement.closest('article')?.id").as_str().unwrap_or_default().to_string()
}

/// The exported file.
fn exported(browser: &mut Browser) -> String {
    std::fs::remove_file(browser.downloads().join("decisions.csv")).unwrap_or(());
    browser.click("#export");
    browser.download("decisions.csv")
}

/// Nothing besides suspects is on the page.
const SUSPECTS_ONLY: [&str; 4] = ["--duplicates-within", "0", "--no-class-beyond", "1e9"];

/// The six most suspicious samples of an audit: path, label and proposal of each.
fn suspects(sandbox: &Sandbox, run: &str) -> Vec<[String; 3]> {
    let report =
        sandbox.curricle(["audit", run, "--limit", "6", "--json"]).args(SUSPECTS_ONLY).assert().success().json();
    let all = report["suspects"].as_array().unwrap();
    assert!(all.len() >= 6, "{all:?}");
    all[..6].iter().map(|one| ["path", "label", "proposed"].map(|key| one[key].as_str().unwrap().to_string())).collect()
}

#[test]
fn decisions_by_click_and_key_are_kept_exported_imported_and_applied() {
    let Some(mut browser) = Browser::start_or_skip("deciding on the page of an audit") else { return };
    let (sandbox, run) = finished("bspml", "balanced_self_paced");
    let found = suspects(&sandbox, &run);
    let page = sandbox.path(format!("{run}/audit.html"));
    browser.open(&page);
    assert_eq!(decisions(&mut browser), ",,,,,");

    // By click: a second click takes the decision back.
    let accept = format!("{} [data-choose=accept]", card(1));
    for expected in ["accept,,,,,", ",,,,,", "accept,,,,,"] {
        browser.click(&accept);
        assert_eq!(decisions(&mut browser), expected);
    }
    assert_eq!(browser.value(&format!("document.querySelector('{accept}').ariaPressed")), json!("true"));

    // By key: a decision goes to the next suspect.
    browser.press("n");
    assert_eq!(focused(&mut browser), "suspect-2");
    browser.press("k");
    assert_eq!(focused(&mut browser), "suspect-3");
    browser.press("d");
    assert_eq!(focused(&mut browser), "suspect-4");
    // Another class: neither an unknown one nor the letters of its name decide anything.
    let [path, label, proposed] = &found[3];
    let labels = sandbox.read(format!("{run}/labels.csv"));
    let labels = rows(&labels);
    let other = labels.iter().map(|row| row["label"]).find(|class| class != label && class != proposed).unwrap();
    browser.press("o");
    "nok".chars().for_each(|c| browser.press(&c.to_string()));
    browser.press("Enter");
    assert_eq!((decisions(&mut browser), focused(&mut browser)), ("accept,keep,drop,,,".into(), "suspect-4".into()));
    browser.press("Escape");
    browser.press("o");
    other.chars().for_each(|c| browser.press(&c.to_string()));
    browser.press("Enter");
    assert_eq!(focused(&mut browser), "suspect-5");
    // Undo goes back to the last decision.
    browser.press("a");
    assert_eq!(focused(&mut browser), "suspect-6");
    browser.press("u");
    assert_eq!(focused(&mut browser), "suspect-5");
    let decided = "accept,keep,drop,other,,";
    assert_eq!(decisions(&mut browser), decided);
    let count = "4 of 6 decided: 1 accepted, 1 kept, 1 dropped, 1 to another class";
    assert_eq!(browser.text(".count"), count);

    // Progress is kept in the browser, and belongs to the data, not to the page.
    sandbox.curricle(["audit", &run, "--limit", "6", "--out", "elsewhere"]).args(SUSPECTS_ONLY).assert().success();
    browser.open(&sandbox.path("elsewhere/audit.html"));
    assert_eq!((decisions(&mut browser), browser.text(".count")), (decided.into(), count.into()));

    // The file has every sample with its label, except for what was dropped.
    let file = exported(&mut browser);
    let list = rows(&file);
    assert_eq!(list.len(), labels.len() - 1);
    let line = |path: &str| list.iter().find(|row| row["path"] == path).map(|row| (row["label"], row["decision"]));
    assert_eq!(line(&found[0][0]), Some((found[0][2].as_str(), "accept")));
    assert_eq!(line(&found[1][0]), Some((found[1][1].as_str(), "keep")));
    assert_eq!(line(&found[2][0]), None);
    assert_eq!(line(path), Some((other, "other")));
    let given =
        |row: &HashMap<&str, &str>| labels.iter().any(|l| (l["path"], l["label"]) == (row["path"], row["label"]));
    assert_eq!(list.iter().filter(|row| row["decision"].is_empty() && given(row)).count(), 156);

    // Started over and imported again, nothing is lost; a file of other data is refused.
    let saved = sandbox.write("decisions.csv", &file);
    browser.click("#restart");
    assert_eq!(decisions(&mut browser), ",,,,,");
    browser.choose_file("#import", &sandbox.write("other.csv", "path,label,decision\nno/such.png,1,keep\n"));
    browser.wait_for("document.querySelector('.message').textContent.includes('no/such.png')");
    assert_eq!(decisions(&mut browser), ",,,,,");
    browser.choose_file("#import", &saved);
    browser.wait_for("document.querySelector('.message').textContent.startsWith('Imported 4 decisions')");
    assert_eq!(decisions(&mut browser), decided);
    assert_eq!(exported(&mut browser), file);

    // The program applies them.
    let apply = ["audit", &run, "--apply", "clean.csv", "--decisions", "decisions.csv", "--no-relabel", "--json"];
    let cleaned = sandbox.curricle(apply).assert().success().json()["cleaned"]["counts"].clone();
    assert_eq!(
        (&cleaned["decided"], &cleaned["relabelled"], &cleaned["dropped"], &cleaned["listed"]),
        (&json!(4), &json!(2), &json!(1), &json!(159))
    );
    let without_decision: Vec<_> = file.lines().map(|line| line.rsplit_once(',').unwrap().0).collect();
    assert_eq!(sandbox.read("clean.csv").lines().collect::<Vec<_>>(), without_decision);

    // A recipe reads the exported file as it is. As a list of labels it must have every sample.
    browser.click(&format!("{} [data-choose=drop]", card(3)));
    sandbox.write("decisions.csv", exported(&mut browser));
    let next = recipe("ms", "uniform")
        .replace("name = \"uniform\"\nratio = 0.2", "name = \"list\"\npath = \"decisions.csv\"\nlabels = \"names\"");
    sandbox.write("next.toml", next.replace("epochs = 10", "epochs = 1"));
    sandbox.curricle(["run", "next.toml", "--out", "again"]).assert().success();
    let used = std::fs::read_to_string(run_folder(&sandbox.path("again")).join("labels.csv")).unwrap();
    let label = |path: &str| rows(&used).iter().find(|row| row["path"] == path).unwrap()["label"].to_string();
    assert_eq!((label(&found[0][0]), label(path).as_str()), (found[0][2].clone(), other));
}

#[test]
fn the_page_reads_the_same_without_scripts_and_every_control_has_a_name() {
    let Some(mut browser) = Browser::start_or_skip("the page of an audit without scripts") else { return };
    let (sandbox, run) = finished("ms", "uniform");
    sandbox.curricle(["audit", &run, "--limit", "3", "--suspects", "5"]).assert().success();
    let page = sandbox.path(format!("{run}/audit.html"));
    let controls = "document.querySelectorAll('button, input, progress, .bar, .choice').length";
    browser.set_scripts(false);
    browser.open(&page);
    assert_eq!(
        (browser.value(controls), browser.value("document.querySelectorAll('#suspects article').length")),
        (json!(0), json!(3))
    );
    browser.set_scripts(true);
    browser.open(&page);
    assert_eq!(browser.value("document.querySelectorAll('#suspects .choice').length"), json!(3));
    let nameless = "[...document.querySelectorAll('button, input, progress, [role=group]')].filter((e) => \
                    !(e.ariaLabel || e.labels?.[0]?.textContent.trim() || e.textContent.trim())).map((e) => e.outerHTML)";
    assert_eq!(browser.value(nameless), json!([]));
    // Without keys, letters mean nothing.
    browser.click("#keys");
    browser.click(&format!("{} h3", card(1)));
    browser.press("a");
    browser.press("d");
    assert_eq!(decisions(&mut browser), ",,");
}

#[test]
fn near_duplicates_and_images_of_no_class_are_shown_and_decided_about() {
    let Some(mut browser) = Browser::start_or_skip("near-duplicates on the page of an audit") else { return };
    let (sandbox, run) = finished("ms", "uniform");
    // Generous limits, so that there are some; no suspects, so that the page has nothing else to decide about.
    let audit = ["audit", &run, "--duplicates-within", "1.5", "--no-class-beyond", "1", "--suspects", "0", "--json"];
    let report = sandbox.curricle(audit).assert().success().json();
    let pairs = report["duplicates"].as_array().unwrap();
    assert_eq!(pairs[0]["kind"], "other_class", "{pairs:?}");
    browser.open(&sandbox.path(format!("{run}/audit.html")));
    assert_eq!(browser.text("h1"), "0 suspected labels");
    let without_image = "[...document.querySelectorAll('.member')].filter((m) => !m.querySelector('img').naturalWidth)";
    assert_eq!(browser.value(&format!("{without_image}.length")), json!(0));

    // Accepting gives a sample the label of its near-duplicate; a sample of no class is dropped.
    browser.click(".pair [data-choose=accept]");
    let accepted = pairs[0]["paths"][0].as_str().unwrap();
    let mut far = report["no_class"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap());
    let far = far.find(|path| *path != accepted).unwrap();
    browser.click(&format!("#findings > section:last-child [data-path='{far}'] [data-choose=drop]"));
    let file = exported(&mut browser);
    let list = rows(&file);
    let line = |path: &str| list.iter().find(|row| row["path"] == path).map(|row| row["label"]);
    assert_eq!(line(accepted), pairs[0]["labels"][1].as_str());
    assert_eq!(line(far), None);
}
