//! `curricle audit`: finding and correcting mislabelled images.

use crate::support::{Printed, Sandbox, run_folder, small_recipe};
use std::collections::HashMap;

/// A recipe that learns enough in a few seconds to find most wrong labels.
pub(crate) fn recipe(loss: &str, weights: &str) -> String {
    small_recipe(loss, weights)
        .replace("classes = 12\nper_class = 10", "classes = 16\nper_class = 20\njitter = 0.5")
        .replace("width = 4", "width = 8")
        .replace("size = 8", "size = 16")
        .replace("epochs = 3", "epochs = 10")
}

/// A sandbox with a finished run, and the run's folder relative to it.
pub(crate) fn finished(loss: &str, weights: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("noisy.toml", recipe(loss, weights));
    sandbox.curricle(["run", "noisy.toml"]).assert().success();
    let run = run_folder(&sandbox.path("runs"));
    let run = run.strip_prefix(sandbox.path("")).unwrap().to_str().unwrap().to_string();
    (sandbox, run)
}

/// The rows of a CSV file without quotes, by title.
pub(crate) fn rows(text: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = text.lines();
    let titles: Vec<_> = lines.next().unwrap().split(',').collect();
    lines.map(|line| titles.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn audit_finds_ranks_shows_and_corrects_wrong_labels() {
    let (sandbox, run) = finished("bspml", "balanced_self_paced");
    let apply = ["audit", &run, "--json", "--apply", "clean.csv", "--relabel-above", "0.6"];
    let report = sandbox.curricle(apply).assert().success().json();

    // 8 training classes of 20 samples, 4 of each flipped.
    let known = &report["known"];
    assert_eq!((report["samples"].as_u64(), known["wrong"].as_u64()), (Some(160), Some(32)));
    for (number, least) in [("precision", 0.7), ("recall", 0.6), ("auroc", 0.9), ("proposals_right", 0.7)] {
        assert!(known[number].as_f64().unwrap() > least, "{number}: {known}");
    }
    assert_eq!(report["weights"], serde_json::json!({ "from": "run", "scheme": "balanced_self_paced" }));

    let table = sandbox.read(format!("{run}/audit.csv"));
    let table = rows(&table);
    assert_eq!(table.len(), 160);
    let suspects: Vec<_> = table.iter().filter(|row| row["suspected"] == "true").collect();
    assert_eq!(suspects.len(), report["suspects"].as_array().unwrap().len());
    assert!(suspects.iter().all(|row| row["label"] != row["proposed"]));
    let estimate = report["estimate"]["wrong"].as_f64().unwrap();
    assert_eq!(suspects.len(), estimate.round() as usize);
    assert!((estimate - 32.0).abs() < 12.0, "{estimate}");
    let mixed: f64 = report["mix_ups"].as_array().unwrap().iter().map(|mix| mix["expected"].as_f64().unwrap()).sum();
    assert!(mixed > 0.5 * estimate && mixed < estimate + 2.0, "{mixed} of {estimate}");
    let three = sandbox.curricle(["audit", &run, "--out", "three", "--suspects", "3", "--json"]).assert().success();
    assert_eq!(three.json()["suspects"].as_array().unwrap().len(), 3);
    let suspicion: Vec<f64> = suspects.iter().map(|row| row["suspicion"].parse().unwrap()).collect();
    assert!(suspicion.is_sorted_by(|a, b| a >= b), "{suspicion:?}");
    let labels = sandbox.read(format!("{run}/labels.csv"));
    let originals: HashMap<_, _> = rows(&labels).into_iter().map(|row| (row["path"], row["original"])).collect();
    assert!(table.iter().all(|row| row["original"] == originals[row["path"]]));

    let page = sandbox.read(format!("{run}/audit.html"));
    let document = roxmltree::Document::parse_with_options(
        &page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let is_card = |node: &roxmltree::Node| node.attribute("id").is_some_and(|id| id.starts_with("suspect-"));
    assert_eq!(document.descendants().filter(is_card).count(), suspects.len());
    assert!(document.descendants().all(|node| node.attribute("src").is_none_or(|from| from.starts_with("data:"))));
    let links: Vec<_> = document.descendants().filter_map(|node| node.attribute("href")).collect();
    let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    for link in links {
        assert!(link.starts_with("data:image/") || ids.contains(&&link[1..]), "{link} leads nowhere");
    }

    // The next recipe reads the cleaned labels, and finds as many wrong ones as the report says.
    let cleaned = &report["cleaned"]["counts"];
    assert!(cleaned["wrong_after"].as_f64().unwrap() < 0.7 * cleaned["wrong_before"].as_f64().unwrap(), "{cleaned}");
    let again = recipe("ms", "uniform")
        .replace("name = \"uniform\"\nratio = 0.2", "name = \"list\"\npath = \"clean.csv\"\nlabels = \"names\"");
    sandbox.write("clean.toml", again.replace("epochs = 10", "epochs = 1"));
    sandbox.curricle(["run", "clean.toml", "--out", "again"]).assert().success();
    let labels = std::fs::read_to_string(run_folder(&sandbox.path("again")).join("labels.csv")).unwrap();
    let wrong = rows(&labels).iter().filter(|row| row["flipped"] == "true").count();
    assert_eq!(wrong as f64 / 160.0, cleaned["wrong_after"].as_f64().unwrap());
}

/// The features of 6 classes of 20 samples; the last three classes are the test set.
fn features() -> (Vec<f32>, Vec<i64>) {
    let mut state = 7_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let centres: Vec<f32> = (0..6 * 12).map(|_| random()).collect();
    let sample = |label: usize, random: &mut dyn FnMut() -> f32| -> Vec<f32> {
        (0..12).map(|d| centres[label * 12 + d] + 0.4 * random()).collect()
    };
    let labels: Vec<i64> = (0..120).map(|row| row / 20).collect();
    let mut rows: Vec<Vec<f32>> = labels.iter().map(|label| sample(*label as usize, &mut random)).collect();
    rows[5] = rows[45].clone(); // across classes
    rows[21] = rows[30].iter().map(|value| value * 1.5).collect(); // within a class, in another length
    rows[100] = rows[50].clone(); // across training and test set
    rows[12] = (0..12).map(|d| if d % 2 == 0 { 9.0 } else { -9.0 }).collect(); // nothing like the others
    (rows.concat(), labels)
}

#[test]
fn near_duplicates_and_a_sample_of_no_class_are_in_table_page_and_report() {
    let (values, labels) = features();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (values, labels) = (bytes(&values), labels.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
    let tensor = |dtype, shape, data| safetensors::tensor::TensorView::new(dtype, shape, data).unwrap();
    let file = safetensors::serialize(
        [
            ("features", tensor(safetensors::Dtype::F32, vec![120, 12], &values)),
            ("labels", tensor(safetensors::Dtype::I64, vec![120], &labels)),
        ],
        None,
    );
    let sandbox = Sandbox::new();
    sandbox.write("features.safetensors", file.unwrap());
    sandbox.write(
        "features.toml",
        "[data]\nsource = \"features\"\npath = \"features.safetensors\"\n[backbone]\nname = \"linear\"\n\
         [embedding]\nsize = 8\n[sampler]\nname = \"pk\"\nclasses = 3\nper_class = 4\n[loss]\nname = \"ms\"\n\
         [optimizer]\nname = \"adam\"\nlr = 1e-3\n[train]\nepochs = 1\n",
    );
    sandbox.curricle(["run", "features.toml"]).assert().success();
    let run = run_folder(&sandbox.path("runs"));
    let run = run.to_str().unwrap();
    let report = sandbox.curricle(["audit", run, "--json"]).assert().success().json();
    let pairs = report["duplicates"].as_array().unwrap();
    let kinds: Vec<_> = pairs.iter().map(|pair| pair["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["other_class", "train_and_test", "same_class"], "{pairs:?}");
    let far = report["no_class"].as_array().unwrap();
    assert_eq!(far.len(), 1, "{far:?}");

    let table = sandbox.read(format!("{run}/audit.csv"));
    let table = rows(&table);
    let row = |sample: &str| table.iter().find(|row| row["sample"] == sample).unwrap();
    for (sample, kind, other) in [("5", "other_class", "45"), ("45", "other_class", "5"), ("30", "same_class", "21")] {
        assert_eq!((row(sample)["duplicate_kind"], row(sample)["duplicate_of"]), (kind, row(other)["path"]));
    }
    assert_eq!((row("50")["duplicate_kind"], row("0")["duplicate_kind"]), ("train_and_test", ""));
    assert_eq!(table.iter().filter(|row| row["no_class"] == "true").count(), 1);
    assert_eq!(row("12")["no_class"], "true");
    let page = sandbox.read(format!("{run}/audit.html"));
    for heading in ["one of them must be wrong (1)", "the test set leaks (1)", "With the same label (1)"] {
        assert!(page.contains(heading), "{heading}");
    }
    let none = ["audit", run, "--json", "--duplicates-within", "0", "--no-class-beyond", "1e9"];
    let report = sandbox.curricle(none).assert().success().json();
    assert!(report["no_class"].as_array().unwrap().is_empty());
    sandbox.curricle(["audit", run, "--duplicates-within", "-1"]).assert().failure();
}

#[test]
fn a_run_without_weights_is_weighted_and_the_output_says_so() {
    let (sandbox, run) = finished("ms", "uniform");
    let mut said = sandbox.curricle(["audit", &run, "--out", "found", "--limit", "3", "--suspects", "5"]);
    let said = said.assert().success();
    let text = said.stdout_text();
    assert!(text.contains("learnt wrong labels by heart (`--suspects N` lists more)"), "{text}");
    assert!(text.contains("the run gave every sample the same weight"), "{text}");
    assert!(text.contains("against 32 known wrong labels"), "{text}");
    let page = sandbox.read("found/audit.html");
    assert_eq!(page.matches("id=\"suspect-").count(), 3);
    assert!(page.contains("You asked for the 5 most suspicious. The 3 most suspicious are shown"), "{page}");
    assert!(!sandbox.path(&run).join("audit.html").exists());
}

#[test]
fn a_run_that_cannot_be_audited_is_refused_with_a_remedy() {
    let (sandbox, run) = finished("ms", "uniform");
    // Long lines are wrapped in a frame, also at hyphens.
    let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != '│').collect::<String>();
    let refused = |args: &[&str], said: &str| {
        let message = sandbox.curricle(args.iter().copied()).assert().failure().stderr_text();
        assert!(squeezed(&message).contains(&squeezed(said)), "{message}");
    };
    refused(&["audit", "runs"], &format!("did you mean `{run}`?"));
    refused(&["audit", "rums"], "there is no folder `rums`");
    refused(&["audit", &run, "--apply", "x.csv", "--relabel-above", "90"], "must be between 0 and 1");
    let recipe = format!("{run}/recipe.toml");
    let other = sandbox.read(&recipe).replace("jitter = 0.5", "jitter = 0.6");
    sandbox.write(&recipe, other);
    refused(&["audit", &run], "the data has changed since");
    std::fs::remove_file(sandbox.path(format!("{run}/result.json"))).unwrap();
    refused(&["audit", &run], "is not finished");
}

/// A grey image of stripes in one of four directions, shifted and with some grain.
fn stripes(direction: usize, number: usize) -> Vec<u8> {
    let mut image = b"P5 32 32 255 ".to_vec();
    let mut grain = 12_345 + 977 * number as u32 + 31 * direction as u32;
    for y in 0..32 {
        for x in 0..32 {
            let along = [x, y, x + y, x + 32 - y][direction] + number;
            grain = grain.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            image.push(if (along / 4).is_multiple_of(2) { 40 } else { 200 } + (grain >> 27) as u8);
        }
    }
    image
}

#[test]
fn a_folder_of_images_is_trained_on_and_audited() {
    let sandbox = Sandbox::new();
    let classes = ["across", "down", "falling", "rising"];
    for (direction, class) in classes.iter().enumerate() {
        for number in 0..12 {
            sandbox.write(&format!("photos/{class}/{number:02}.pgm"), stripes(direction, number));
        }
    }
    sandbox.write("photos/down/wrong.pgm", stripes(0, 20));
    sandbox.write("photos/rising/wrong.pgm", stripes(2, 21));

    let printed = sandbox.curricle(["audit", "--images", "photos", "--print-recipe"]).assert().success();
    assert!(printed.stdout_text().contains("split = \"none\""), "{}", printed.stdout_text());
    assert!(!sandbox.path("runs").exists());
    let quick = ["--set", "images.size=32", "--set", "train.epochs=8", "--set", "backbone.width=8"];
    let audit = |more: &[&str]| {
        let mut args = vec!["audit", "--images", "photos"];
        args.extend(quick.iter().chain(more).copied());
        sandbox.curricle(args).assert()
    };
    sandbox.write("photos/down/broken.pgm", "P5 32 32 255 ");
    for mistake in [["--neighbours", "0"], ["--apply", "no/such/folder/clean.csv"]] {
        let refused = audit(&mistake).failure().stderr_text();
        assert!(refused.contains(mistake[0]) || refused.contains(mistake[1]), "{refused}");
        assert!(!sandbox.path("runs").exists(), "found before training");
    }
    let audited = audit(&["--json", "--apply", "clean.csv", "--relabel-above", "0.5"]).success();
    let skipped = "skipping 1 of 51 files";
    assert!(audited.stderr_text().contains(skipped), "{}", audited.stderr_text());
    assert!(audited.stderr_text().contains("`down/broken.pgm`"), "{}", audited.stderr_text());
    let report = audited.json();
    assert_eq!((report["samples"].as_u64(), report["known"].is_null()), (Some(50), true));
    let suspects = report["suspects"].as_array().unwrap();
    for (path, proposed) in [("down/wrong.pgm", "across"), ("rising/wrong.pgm", "falling")] {
        let found = suspects.iter().find(|suspect| suspect["path"] == path);
        assert!(found.is_some_and(|suspect| suspect["proposed"] == proposed), "{path}: {suspects:?}");
    }

    // The cleaned list is a data set too, and nothing is trained twice.
    let run = report["run"].as_str().unwrap();
    assert!(sandbox.path(run).join("audit.html").exists());
    let list = ["audit", "--csv", "clean.csv", "--set", "data.root=photos", "--json"];
    let again = sandbox.curricle(list.iter().chain(&quick).copied()).assert().success().json();
    assert_eq!(again["samples"].as_u64(), Some(50));
    assert!(audit(&[]).success().stderr_text().contains("already trained"));
    std::fs::remove_file(sandbox.path("photos/down/wrong.pgm")).unwrap();
    let changed = audit(&[]).failure().stderr_text();
    assert!(changed.contains("the data has changed") && changed.contains("--force"), "{changed}");
}
