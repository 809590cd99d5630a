use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    first: Vec<f64>,
    second: Vec<f64>,
    spread: GoldenSpread,
    t: f64,
    wilcoxon: f64,
    sign_flip: f64,
}

#[derive(Deserialize)]
struct GoldenSpread {
    mean: f64,
    std: f64,
    interval: [f64; 2],
}

#[track_caller]
fn close(ours: f64, golden: f64) {
    assert!((ours - golden).abs() <= 1e-9 * golden.abs().max(1e-3), "{ours} instead of {golden}");
}

#[test]
fn spreads_and_tests_agree_with_scipy() {
    let golden: Golden = serde_json::from_str(include_str!("../../../../tests/golden/report_statistics.json")).unwrap();
    assert!(golden.cases.len() > 10);
    for case in golden.cases {
        let spread = Spread::of(&case.first).unwrap();
        close(spread.mean, case.spread.mean);
        close(spread.std.unwrap(), case.spread.std);
        let [low, high] = spread.interval.unwrap();
        close(low, case.spread.interval[0]);
        close(high, case.spread.interval[1]);
        let differences: Vec<f64> = case.first.iter().zip(&case.second).map(|(a, b)| a - b).collect();
        close(Test::T.p_value(&differences).unwrap(), case.t);
        close(Test::Wilcoxon.p_value(&differences).unwrap(), case.wilcoxon);
        close(Test::SignFlip.p_value(&differences).unwrap(), case.sign_flip);
    }
}

#[test]
fn one_run_has_a_mean_but_no_spread() {
    let spread = Spread::of(&[5.0]).unwrap();
    assert_eq!((spread.mean, spread.std, spread.interval), (5.0, None, None));
    assert_eq!(Spread::of(&[]), None);
    assert_eq!(Test::T.p_value(&[0.1]), None);
}

#[test]
fn zero_differences_give_p_1_and_constant_differences_have_no_t_test() {
    for test in [Test::T, Test::Wilcoxon, Test::SignFlip] {
        assert_eq!(test.p_value(&[0.0, 0.0, 0.0]), Some(1.0));
    }
    assert_eq!(Test::T.p_value(&[0.5, 0.5, 0.5]), None);
    assert_eq!(Test::SignFlip.p_value(&[0.5, 0.5, 0.5]), Some(0.25));
}

#[test]
fn exact_tests_reach_their_smallest_p() {
    let differences = [0.1, 0.2, 0.3, 0.4];
    for test in [Test::Wilcoxon, Test::SignFlip] {
        assert_eq!(test.p_value(&differences), test.smallest_p(4));
    }
    assert_eq!(Test::SignFlip.p_value(&[0.1; EXACT_SIGN_FLIPS + 1]), None);
    assert!(Test::Wilcoxon.p_value(&[0.1; 200]).unwrap() < 1e-30);
}

#[test]
fn holm_correction_is_monotonic_and_at_most_1() {
    let close = |ours: &[f64], expected: &[f64]| {
        assert!(ours.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{ours:?}");
    };
    close(&holm(&[0.01, 0.04, 0.03]), &[0.03, 0.06, 0.06]);
    close(&holm(&[0.5, 0.9]), &[1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}
