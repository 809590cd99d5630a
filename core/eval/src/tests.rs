//! Tests of the evaluation: against a naive implementation, against other libraries, and properties.

use super::*;
use curricle_sdk::rng::stream;
use proptest::prelude::*;
use rand::RngExt;
use rand::seq::SliceRandom;
use tch::{Device, Kind};

fn ranking_only(recall_at: &[usize]) -> EvalOptions {
    EvalOptions { recall_at: recall_at.to_vec(), cluster: None }
}

/// All pairs, fully sorted, in f64.
fn naive(input: &EvalInput, ks: &[usize]) -> Metrics {
    let space = Space::new(input.embeddings).unwrap();
    let (rows, n) = (space.rows(), space.len());
    let is_query = |i: usize| input.query.is_none_or(|q| q[i]);
    let is_reference = |i: usize| input.query.is_none_or(|q| !q[i]);
    let (mut ranked, mut excluded) = (Vec::new(), 0);
    for i in (0..n).filter(|&i| is_query(i)) {
        let similarity = |j: usize| -> f64 {
            rows.row(i as u32).iter().zip(rows.row(j as u32)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        let others = (0..n).filter(|&j| j != i && is_reference(j));
        let mut others: Vec<(f64, usize)> = others.map(|j| (similarity(j), j)).collect();
        others.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let others: Vec<usize> = others.into_iter().map(|o| o.1).collect();
        let same = |&j: &usize| input.labels[j] == input.labels[i];
        match others.iter().filter(|j| same(j)).count() {
            0 => excluded += 1,
            relevant => ranked.push(Ranked::new(others.iter().map(same), relevant)),
        }
    }
    Metrics {
        recall: ks.iter().map(|&k| (k, recall_at(k, &ranked))).collect(),
        r_precision: mean(&ranked, |r| r.r_precision),
        map_at_r: mean(&ranked, |r| r.average_precision),
        nmi: None,
        ami: None,
        inertia: None,
        queries: ranked.len(),
        excluded,
    }
}

/// Noisy classes. With `tied`, there are duplicates and coordinates are on a coarse grid, so that there
/// are many ties.
fn sample(n: usize, dim: i64, classes: i64, tied: bool, seed: u64) -> (Tensor, Vec<i64>) {
    let mut rng = stream(seed, "test", 0, 0);
    let labels: Vec<i64> = (0..n).map(|_| rng.random_range(0..classes)).collect();
    let mut values: Vec<f32> = (0..n as i64 * dim)
        .map(|at| {
            let class = labels[(at / dim) as usize];
            let value = ((class * 31 + at % dim * 17) % 7 - 3) as f32 + rng.random_range(-4.0..4.0);
            if tied { value.round().clamp(-2.0, 2.0) + 0.5 } else { value }
        })
        .collect();
    if tied {
        let dim = dim as usize;
        (0..n / 3).for_each(|i| values.copy_within(i * dim..(i + 1) * dim, (n - 1 - i) * dim));
    }
    (Tensor::from_slice(&values).view([n as i64, dim]), labels)
}

fn assert_all_agree(input: &EvalInput, recall_at: &[usize]) {
    let expected = naive(input, recall_at);
    for path in [Path::Tiles, Path::Torch] {
        let options = ranking_only(recall_at);
        assert_eq!(evaluate_by(input, &options, path).unwrap(), expected, "{path:?}");
    }
}

#[test]
fn both_paths_match_the_naive_evaluation() {
    for (n, dim, classes, tied) in [(300, 5, 30, false), (300, 3, 12, true), (2300, 8, 90, false), (1500, 4, 25, true)]
    {
        let (x, labels) = sample(n, dim, classes, tied, 1);
        assert_all_agree(&EvalInput { embeddings: &x, labels: &labels, query: None }, &[1, 2, 4, 100]);
    }
}

#[test]
fn both_paths_match_the_naive_evaluation_with_queries_and_a_gallery() {
    for (n, tied) in [(400, true), (2600, false)] {
        let (x, labels) = sample(n, 4, n as i64 / 10, tied, 2);
        let query: Vec<bool> = (0..n).map(|i| i % 7 < 3).collect();
        assert_all_agree(&EvalInput { embeddings: &x, labels: &labels, query: Some(&query) }, &[1, 10, 20]);
    }
}

#[test]
fn collapsed_embeddings_are_ranked_by_index() {
    let n = 1300;
    let labels: Vec<i64> = (0..n).map(|i| i % 130).collect();
    let point = Tensor::from_slice(&[0.3_f32, -0.2, 0.9]).view([1, 3]);
    let collapsed = point.repeat([n, 1]);
    assert_all_agree(&EvalInput { embeddings: &collapsed, labels: &labels, query: None }, &[1, 8]);
    // Almost collapsed: differences on the order of f32 rounding.
    curricle_torch::seed(1).unwrap();
    let almost = &collapsed + 3e-7 * Tensor::randn([n, 3], (Kind::Float, Device::Cpu));
    assert_all_agree(&EvalInput { embeddings: &almost, labels: &labels, query: None }, &[1, 8]);
}

#[test]
fn duplicates_are_found_and_a_query_never_finds_itself() {
    let x = Tensor::from_slice(&[1.0_f32, 0.0, 1.0, 0.0, 0.0, 1.0, 0.6, 0.8]).view([4, 2]);
    let metrics =
        evaluate(&EvalInput { embeddings: &x, labels: &[0, 1, 0, 1], query: None }, &ranking_only(&[1, 2, 3])).unwrap();
    // 0 finds 1 (its duplicate, of the other class), 3, 2. 1 finds 0, 3. 2 finds 3, 0. 3 finds 2, 0, 1.
    assert_eq!(metrics.recall, [(1, 0.0), (2, 0.5), (3, 1.0)].into());
}

#[test]
fn single_sample_classes_are_excluded_and_counted() {
    let (x, mut labels) = sample(50, 4, 5, false, 3);
    (labels[7], labels[20]) = (100, -3);
    let metrics = evaluate(&EvalInput { embeddings: &x, labels: &labels, query: None }, &ranking_only(&[1])).unwrap();
    assert_eq!((metrics.queries, metrics.excluded), (48, 2));
    assert_all_agree(&EvalInput { embeddings: &x, labels: &labels, query: None }, &[1, 2]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (x, labels) = sample(1400, 6, 40, true, 4);
            evaluate(&EvalInput { embeddings: &x, labels: &labels, query: None }, &EvalOptions::default()).unwrap()
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn separated_classes_get_perfect_metrics() {
    let labels: Vec<i64> = (0..60).map(|i| i % 6 * 10).collect();
    let x = Tensor::eye(6, (Kind::Float, Device::Cpu)).repeat([10, 1]);
    let metrics =
        evaluate(&EvalInput { embeddings: &x, labels: &labels, query: None }, &EvalOptions::default()).unwrap();
    for (name, value) in metrics.scalars() {
        assert!((value - 1.0).abs() < 1e-12, "{name} = {value}");
    }
    assert_eq!(metrics.inertia, Some(0.0));
}

#[test]
fn neighbours_are_ranked_and_exclude_queries() {
    let x = Tensor::from_slice(&[1.0_f32, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 2.0]).view([4, 2]);
    let found = neighbours(&x, None, &[3, 0], 2).unwrap();
    let indices: Vec<Vec<usize>> = found.iter().map(|f| f.iter().map(|n| n.0).collect()).collect();
    assert_eq!(indices, [[2, 1], [1, 2]]);
    assert!((found[0][0].1 - 0.8).abs() < 1e-6);
    let masked = neighbours(&x, Some(&[true, true, false, false]), &[0], 5).unwrap();
    assert_eq!(masked[0].iter().map(|n| n.0).collect::<Vec<_>>(), [2, 3]);
    assert!(neighbours(&x, None, &[4], 1).unwrap_err().to_string().contains("query 4"));
}

#[test]
fn invalid_input_is_refused_with_the_reason() {
    let (x, labels) = sample(10, 3, 4, false, 5);
    let refuse = |labels: &[i64], query: Option<&[bool]>, k: usize| {
        evaluate(&EvalInput { embeddings: &x, labels, query }, &ranking_only(&[k])).unwrap_err().to_string()
    };
    assert_eq!(refuse(&labels[1..], None, 1), "there are 10 embeddings but 9 labels; there must be one per embedding");
    assert!(refuse(&[3; 10], None, 1).starts_with("all labels are the same"));
    assert!(refuse(&(0..10).collect::<Vec<_>>(), None, 1).starts_with("no query has another sample"));
    assert!(refuse(&labels, Some(&[true; 10]), 1).starts_with("the query mask needs"));
    assert!(refuse(&labels, None, 0).starts_with("Recall@0"));
}

#[derive(serde::Deserialize)]
struct Golden {
    embeddings: Vec<Vec<f32>>,
    labels: Vec<i64>,
    query: Vec<bool>,
    each_against_all_others: GoldenRanking,
    query_against_gallery: GoldenRanking,
    partitions: Vec<GoldenPartitions>,
}

#[derive(serde::Deserialize)]
struct GoldenRanking {
    recall: BTreeMap<usize, f64>,
    r_precision: f64,
    map_at_r: f64,
}

#[derive(serde::Deserialize)]
struct GoldenPartitions {
    a: Vec<u32>,
    b: Vec<u32>,
    nmi: f64,
    ami: f64,
}

/// Written by `tests/golden/eval.py`, which documents where the numbers come from.
fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../tests/golden/eval.json")).unwrap()
}

#[test]
fn ranking_metrics_match_other_libraries() {
    let golden = golden();
    let x = Tensor::from_slice2(&golden.embeddings);
    let protocols =
        [(None, golden.each_against_all_others), (Some(golden.query.as_slice()), golden.query_against_gallery)];
    for (query, expected) in protocols {
        let ks: Vec<usize> = expected.recall.keys().copied().collect();
        let input = EvalInput { embeddings: &x, labels: &golden.labels, query };
        let metrics = evaluate(&input, &ranking_only(&ks)).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(metrics.r_precision, expected.r_precision), "{metrics:?}");
        assert!(close(metrics.map_at_r, expected.map_at_r), "{metrics:?}");
        for k in ks {
            assert!(close(metrics.recall[&k], expected.recall[&k]), "recall@{k}");
        }
    }
}

#[test]
fn mutual_information_matches_other_libraries() {
    for expected in golden().partitions {
        let found = agreement(&expected.a, &expected.b);
        assert!((found.nmi - expected.nmi).abs() < 1e-10, "{} {}", found.nmi, expected.nmi);
        assert!((found.ami - expected.ami).abs() < 1e-10, "{} {}", found.ami, expected.ami);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_order_of_samples_and_the_class_numbers_do_not_matter(seed in 0_u64..1000, n in 30_usize..120) {
        let (x, labels) = sample(n, 6, 6, false, seed);
        let options = ranking_only(&[1, 2, 4, 8]);
        let metrics = evaluate(&EvalInput { embeddings: &x, labels: &labels, query: None }, &options).unwrap();

        let renamed: Vec<i64> = labels.iter().map(|l| 77 - 5 * l).collect();
        let other = evaluate(&EvalInput { embeddings: &x, labels: &renamed, query: None }, &options).unwrap();
        prop_assert_eq!(&metrics, &other);

        let mut order: Vec<i64> = (0..n as i64).collect();
        order.shuffle(&mut stream(seed, "test", 1, 0));
        let shuffled: Vec<i64> = order.iter().map(|&i| labels[i as usize]).collect();
        let x = x.index_select(0, &Tensor::from_slice(&order));
        let other = evaluate(&EvalInput { embeddings: &x, labels: &shuffled, query: None }, &options).unwrap();
        for ((name, a), (_, b)) in metrics.scalars().into_iter().zip(other.scalars()) {
            prop_assert!((a - b).abs() < 1e-12, "{name}: {a} {b}");
        }
        prop_assert!(metrics.recall.values().is_sorted());
        prop_assert!(metrics.map_at_r <= metrics.r_precision);
    }
}
