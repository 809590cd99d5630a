//! `curricle report`: tables, figures, and runs that cannot be compared.

use crate::support::{Printed, Sandbox, find, small_recipe};

/// A sandbox with finished runs of two methods with two seeds.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let base = small_recipe("ms", "uniform").replace("epochs = 3", "epochs = 2");
    let sweep = "\n[sweep]\nmethods = [\"ms.toml\", \"bspml.toml\"]\nseeds = [0, 1]\n";
    sandbox.write("many.toml", base + sweep);
    sandbox.write("ms.toml", "[loss]\nname = \"ms\"\n");
    sandbox.write("bspml.toml", "[loss]\nname = \"bspml\"\n[weights]\nname = \"balanced_self_paced\"\n");
    sandbox.curricle(["bench", "many.toml", "--quiet"]).assert().success();
    sandbox
}

#[test]
fn runs_are_reported_in_every_format() {
    let sandbox = sandbox();
    let table = sandbox.curricle(["report", "runs", "--against", "ms"]).assert().success().stdout_text();
    for part in ["method", "R@1", "95 % CI", "vs untrained", "vs ms", "untrained", "bspml", "paired t test"] {
        assert!(table.contains(part), "no {part} in\n{table}");
    }
    let bench = sandbox.curricle(["bench", "many.toml"]).assert().success().stdout_text();
    assert!(bench.contains("95 % CI") && bench.contains("time (s)"), "{bench}");

    let json = sandbox.curricle(["report", "runs", "--json"]).assert().success().json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 3);
    assert_eq!(json["rows"][1]["values"]["recall@1"]["runs"], 2);
    assert_eq!(json["runs"].as_array().unwrap().len(), 4);
    let markdown = sandbox.curricle(["report", "runs", "--format", "md"]).assert().success().stdout_text();
    assert!(markdown.contains("| method | R@1 |") && markdown.contains("**"), "{markdown}");
    let latex = sandbox.curricle(["report", "runs", "--out", "table.tex", "--metrics", "nmi"]).assert().success();
    assert!(latex.stdout_text().is_empty() && latex.stderr_text().contains("wrote `table.tex`"));
    assert!(sandbox.read("table.tex").contains("\\toprule"));
    let csv = sandbox.curricle(["report", "runs", "--format", "csv"]).assert().success().stdout_text();
    assert!(csv.lines().any(|line| line.starts_with("bspml,,true,auroc,2,0,0 1,")), "{csv}");

    let drawn = sandbox.curricle(["report", "runs", "--out", "report.html", "--figures", "figures"]).assert().success();
    let said = drawn.stderr_text();
    assert!(said.contains("not drawn: R@1 against wrong labels: needs"), "{said}");
    let html = sandbox.read("report.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    assert_eq!(html.matches("data:image/png;base64,").count(), 2, "what each method retrieves");
    for figure in ["memorisation", "loss", "objective", "convergence", "weights-bspml"] {
        let svg = sandbox.read(format!("figures/{figure}.svg"));
        assert!(svg.contains("bspml"), "{svg}");
        assert!(html.contains(&format!("id=\"{figure}-title\"")), "no {figure} on the page");
    }
}

#[test]
fn runs_under_different_conditions_are_refused_and_unfinished_ones_listed() {
    let sandbox = sandbox();
    sandbox.write("other.toml", small_recipe("snr", "uniform").replace("ratio = 0.2", "ratio = 0.4"));
    sandbox.curricle(["run", "other.toml", "--set", "train.epochs=2"]).assert().success();
    let refused = sandbox.curricle(["report", "runs"]).assert().code(2).stderr_text();
    for part in ["training labels differ, seed 0", "noise.ratio = 0.2 (ms, bspml), 0.4 (snr)", "--by SETTING"] {
        assert!(refused.contains(part), "no {part} in\n{refused}");
    }
    let by = sandbox.curricle(["report", "runs", "--by", "noise.ratio", "--figures", "figures"]).assert().success();
    assert!(by.stdout_text().contains("40 % noise"), "{}", by.stdout_text());

    let run = crate::support::run_folder(&sandbox.path("runs/other"));
    std::fs::remove_file(run.join("result.json")).unwrap();
    let rest = sandbox.curricle(["report", "runs"]).assert().success();
    assert!(rest.stderr_text().contains("not finished"), "{}", rest.stderr_text());
    assert!(rest.stdout_text().contains("1 folder was skipped"), "{}", rest.stdout_text());
    let nothing = sandbox.curricle(["report", "runs/other"]).assert().code(2).stderr_text();
    assert!(nothing.contains("no finished run to report on"), "{nothing}");
}

#[test]
fn methods_on_different_batches_are_compared_only_if_allowed() {
    let sandbox = sandbox();
    sandbox.write("snr.toml", small_recipe("snr", "uniform"));
    let other = ["run", "snr.toml", "--set", "train.epochs=2", "--set", "sampler.per_class=2"];
    sandbox.curricle(other).assert().success();
    let refused = sandbox.curricle(["report", "runs"]).assert().code(2).stderr_text();
    assert!(refused.contains("batches differ") && refused.contains("--allow batches"), "{refused}");
    let allowed = sandbox.curricle(["report", "runs", "--allow", "batches"]).assert().success().stdout_text();
    assert!(allowed.contains("methods were not trained on the same batches"), "{allowed}");
    assert!(allowed.contains("missing"), "snr has one seed: {allowed}");
}

#[test]
fn mistakes_are_reported_with_a_remedy() {
    let sandbox = sandbox();
    let wrong = |args: &[&'static str]| {
        let all = ["report"].into_iter().chain(args.iter().copied());
        sandbox.curricle(all).assert().code(2).stderr_text()
    };
    assert!(wrong(&["rums"]).contains("there is no folder `rums`"));
    assert!(wrong(&["runs", "--against", "mss"]).contains("did you mean `ms`?"));
    assert!(wrong(&["runs", "--metrics", "recal@1"]).contains("did you mean `recall@1`?"));
    assert!(wrong(&["runs", "--out", "report"]).contains("--format"));
    assert!(wrong(&["runs", "--test", "wilcoxon"]).contains("--against"));
    assert!(wrong(&["runs", "--by", "noise.ration"]).contains("no run has a setting `noise.ration`"));
    let nowhere = sandbox.curricle(["report", "runs", "--out", "no/such/folder.md"]).assert().code(1).stderr_text();
    assert!(nowhere.contains("cannot write"), "{nowhere}");
}

#[test]
fn edited_recipes_and_damaged_curves_are_reported() {
    let sandbox = sandbox();
    let files = |name: &str| {
        let mut found = find(&sandbox.path("runs"), name);
        found.sort();
        found
    };
    let edited = &files("recipe.toml")[0];
    let recipe = std::fs::read_to_string(edited).unwrap();
    std::fs::write(edited, recipe.replace("ratio = 0.2", "ratio = 0.0")).unwrap();
    let damaged = &files("metrics.jsonl")[3];
    let metrics = std::fs::read_to_string(damaged).unwrap();
    std::fs::write(damaged, metrics.replacen("\"step\"", "\"stop\"", 1)).unwrap();

    let said = sandbox.curricle(["report", "runs", "--out", "report.html"]).assert().success().stderr_text();
    assert!(said.contains("`recipe.toml` was changed after the run"), "{said}");
    assert!(said.contains("warning: Curves of ") && said.contains("metrics.jsonl`: line 2"), "{said}");
    assert!(sandbox.read("report.html").contains("Missing from the figures"));
}
