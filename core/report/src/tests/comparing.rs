//! Which runs are found, compared and refused.

use super::*;

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
    assert!(find(&[empty.path().join("x")]).unwrap_err().to_string().contains("there is no folder"));
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

#[test]
fn a_loss_is_followed_by_its_variants_and_an_upper_bound_is_not_ranked() {
    let comparison = compared(losses_and_weights());
    let expected = ["ms", "snr", "norm_softmax"]
        .map(|loss| [loss.to_string(), format!("{loss} + balanced_self_paced"), format!("{loss} + oracle")]);
    assert_eq!(comparison.methods, expected.concat());
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let rank = |method: &str| summary.row(method, "noisy").unwrap().values["recall@1"].rank;
    assert_eq!(rank("norm_softmax + oracle"), None, "although it has the highest mean");
    assert_eq!((rank("norm_softmax + balanced_self_paced"), rank("snr + balanced_self_paced")), (Some(1), Some(2)));
    let layout = layout("", &comparison, &summary);
    assert!(layout.notes.iter().any(|note| note.starts_with("`oracle` knows")), "{:?}", layout.notes);
}

#[test]
fn very_many_methods_are_shown_as_losses_by_weights_first() {
    let mut runs = Vec::new();
    for i in 0..21 {
        for weights in ["uniform", "knn"] {
            let loss = format!("loss{i}");
            let mut run = fixture::run(&curricle_record::default_method(&loss, weights), "noisy", 0, 0.5);
            (run.result.loss, run.result.weights) = (loss.clone(), weights.into());
            runs.push(run);
        }
        runs.push(fixture::run(&format!("loss{i}"), "clean", 0, 0.6));
    }
    let comparison = compared(runs);
    let summary = Summary::new(&comparison, &SummaryOptions::default()).unwrap();
    let layout = layout("", &comparison, &summary);
    let titles = |tables: &[table::ReportTable]| tables.iter().map(|table| table.title.clone()).collect::<Vec<_>>();
    assert_eq!(titles(&layout.tables), ["R@1 by loss and weights: noisy", "R@1 in all cases", "clean", "noisy"]);
    assert_eq!(titles(&layout.compact), ["clean", "R@1 by loss and weights: noisy"], "tables that fit on a page");
}
