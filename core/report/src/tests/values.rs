//! The numbers of a summary.

use super::*;

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
