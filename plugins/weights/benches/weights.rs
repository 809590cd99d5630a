//! Speed of ξ± and of the two solvers, as ratios and tables.
//!
//! ```text
//! cargo bench -p curricle-weights --bench weights -- [--samples N] [--features FILE]
//! ```
//!
//! `FILE` is a safetensors file with `features [N,F]` and `labels [N]`, sorted by label; its first
//! 100 classes are used for the comparison of the solvers. Without one, synthetic clusters are.

use curricle_sdk::rng::stream;
use curricle_weights::classes::Classes;
use curricle_weights::exact;
use curricle_weights::problem::Problem;
use curricle_weights::solver::Solver;
use curricle_weights::target::lambda_for_maw;
use curricle_weights::xi::{Constants, Xi, xi};
use rand::RngExt;
use std::time::Instant;
use tch::{Device, Kind, Tensor};

const CONSTANTS: Constants = Constants { alpha: 2.0, beta: 50.0, rho: 0.5 };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|i| arguments.get(i + 1));
    let samples = value("--samples").and_then(|n| n.parse().ok()).unwrap_or(20_000);
    tch::manual_seed(1);
    println!("threads: {}\n", tch::get_num_threads());
    xi_against_bare_products(samples, 512);
    exact_at_the_size_of_sop();
    let data = match value("--features") {
        Some(path) => features(path),
        None => clusters(5_864, 100, 64, 0.9),
    };
    solvers_against_each_other(data);
}

/// Rows scaled to unit length.
fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true)
}

/// Samples around random centres, and their classes: sizes spread like SOP's, from two upwards.
fn clusters(samples: i64, classes: i64, size: i64, spread: f64) -> (Tensor, Vec<i64>) {
    let mut rng = stream(1, "clusters", 0, 0);
    let labels: Vec<i64> =
        (0..samples).map(|i| if i < 2 * classes { i % classes } else { rng.random_range(0..classes) }).collect();
    let options = (Kind::Float, Device::Cpu);
    let centres = Tensor::randn([classes, size], options).index_select(0, &Tensor::from_slice(&labels));
    (unit(&(centres + Tensor::randn([samples, size], options) * spread)), labels)
}

/// The first 100 classes of a feature file, centred.
fn features(path: &str) -> (Tensor, Vec<i64>) {
    let all = Tensor::read_safetensors(path).expect("a safetensors file");
    let get = |name: &str| &all.iter().find(|(n, _)| n == name).expect("`features` and `labels`").1;
    let labels: Vec<i64> = Vec::try_from(get("labels")).expect("i64 labels");
    let labels: Vec<i64> = labels.into_iter().take_while(|&label| label < 100).collect();
    let rows = get("features").narrow(0, 0, labels.len() as i64).to_kind(Kind::Float);
    (unit(&(&rows - rows.mean_dim([0i64].as_slice(), true, None))), labels)
}

/// A fifth of the labels moved to other classes, and which.
fn with_noise(labels: &[i64]) -> (Vec<i64>, Vec<bool>) {
    let mut rng = stream(2, "noise", 0, 0);
    let classes = labels.iter().max().map_or(0, |last| last + 1);
    let flipped: Vec<bool> = labels.iter().map(|_| rng.random::<f64>() < 0.2).collect();
    let noisy = labels.iter().zip(&flipped);
    let noisy = noisy.map(|(&l, &f)| if f { (l + rng.random_range(1..classes)) % classes } else { l }).collect();
    (noisy, flipped)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn xi_against_bare_products(samples: i64, size: i64) {
    let (rows, labels) = clusters(samples, samples / 5, size, 1.0);
    let classes = Classes::new(&labels);
    let (mut bare, mut full) = (Vec::new(), Vec::new());
    // The first turn warms up.
    for turn in 0..6 {
        let start = Instant::now();
        bare_products(&rows, 4096);
        let between = Instant::now();
        xi(&rows, &classes, &CONSTANTS).expect("finite embeddings");
        if turn > 0 {
            bare.push((between - start).as_secs_f64());
            full.push(between.elapsed().as_secs_f64());
        }
    }
    let ratios = bare.iter().zip(&full).map(|(b, f)| b / f).collect();
    let (bare, full, ratio) = (median(bare), median(full), 100.0 * median(ratios));
    println!("ξ± of {samples} × {size}: {full:.2} s; the products alone {bare:.2} s; {ratio:.0} % of their speed\n");
}

/// Exactly the products that ξ± needs: tiles on and above the diagonal, into one buffer.
fn bare_products(rows: &Tensor, tile: i64) {
    let samples = rows.size()[0];
    let room = Tensor::empty([tile * tile], (rows.kind(), rows.device()));
    for top in (0..samples).step_by(tile as usize) {
        for left in (top..samples).step_by(tile as usize) {
            let (height, width) = (tile.min(samples - top), tile.min(samples - left));
            let room = room.narrow(0, 0, height * width).view([height, width]);
            let _ = rows.narrow(0, top, height).mm_out(&room, &rows.narrow(0, left, width).tr());
        }
    }
}

fn exact_at_the_size_of_sop() {
    let (rows, labels) = clusters(59_551, 11_318, 32, 0.5);
    let (labels, _) = with_noise(&labels);
    let classes = Classes::new(&labels);
    let Xi { pos, neg } = xi(&rows, &classes, &CONSTANTS).expect("finite embeddings");
    let all = vec![1.0; labels.len()];
    println!("exact solver, {} samples in {} classes, from w = 1", labels.len(), classes.count());
    println!("{:>8} {:>8} {:>8} {:>10} {:>8} {:>8}", "mu", "MAW", "sweeps", "gradient", "seconds", "target s");
    for share in [0.0, 0.1, 1.0, 10.0] {
        let at = |lambda: f64| Problem { classes: &classes, xi_pos: &pos, xi_neg: &neg, lambda, mu: share * lambda };
        let start = Instant::now();
        let lambda = lambda_for_maw(at, 0.8, &all, 1, 1);
        let fitted = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let solution = Solver::default().solve(&at(lambda), &all, 1, 1);
        let solved = start.elapsed().as_secs_f64();
        let norm = at(lambda).projected_gradient(&solution.weights);
        let maw = classes.maw_sdaw(&solution.weights).0;
        println!("{share:>6} λ {maw:>8.4} {:>8} {norm:>10.1e} {solved:>8.3} {fitted:>8.3}", solution.sweeps);
    }
    println!();
}

fn solvers_against_each_other((rows, labels): (Tensor, Vec<i64>)) {
    let (labels, flipped) = with_noise(&labels);
    let classes = Classes::new(&labels);
    let Xi { pos, neg } = xi(&rows, &classes, &CONSTANTS).expect("finite embeddings");
    let all = vec![1.0; labels.len()];
    let at = |lambda: f64| Problem { classes: &classes, xi_pos: &pos, xi_neg: &neg, lambda, mu: lambda };
    let problem = at(lambda_for_maw(at, 0.8, &all, 1, 1));
    println!(
        "both solvers, {} samples in {} classes, 20 % noise, λ = μ = {:.3}",
        labels.len(),
        classes.count(),
        problem.lambda
    );
    println!("{:<34} {:>9} {:>12} {:>8} {:>8} {:>8}", "", "seconds", "objective", "clean w", "noisy w", "AUROC");
    let show = |name: &str, seconds: f64, weights: &[f64]| {
        let mean = |wanted: bool| {
            let chosen = weights.iter().zip(&flipped).filter(|(_, f)| **f == wanted);
            let (sum, count) = chosen.fold((0.0, 0.0), |(s, n), (w, _)| (s + w, n + 1.0));
            sum / count
        };
        println!(
            "{name:<34} {seconds:>9.4} {:>12.6} {:>8.3} {:>8.3} {:>8.3}",
            problem.objective(weights),
            mean(false),
            mean(true),
            auroc(weights, &flipped)
        );
    };
    show("start", 0.0, &all);
    for sweeps in [1, 2, 4, 1000] {
        let start = Instant::now();
        let solution = exact::solve(&problem, &all, sweeps, 1e-9, stream(1, "bench", 0, 0));
        show(&format!("exact, {} sweeps", solution.sweeps), start.elapsed().as_secs_f64(), &solution.weights);
    }
    let mean_size = labels.len() as f64 / classes.count() as f64;
    for share in [0.03, 0.1, 0.3, 1.0, 3.0] {
        for passes in [5, 20, 100] {
            let iterations = Some(passes * labels.len());
            let step = Some(share * mean_size);
            let solver = Solver::DoublyStochastic { classes: 16, per_class: 4, step, decay: 1.0, iterations };
            let start = Instant::now();
            let solution = solver.solve(&problem, &all, 1, 1);
            let name = format!("sampled, {passes} passes, step {:.1}", share * mean_size);
            show(&name, start.elapsed().as_secs_f64(), &solution.weights);
        }
    }
}

/// Share of (wrong, right) pairs in which the wrong label has the lower weight; ties count half.
fn auroc(weights: &[f64], flipped: &[bool]) -> f64 {
    let split = |wanted: bool| {
        let mut chosen: Vec<f64> =
            weights.iter().zip(flipped).filter(|(_, f)| **f == wanted).map(|(w, _)| *w).collect();
        chosen.sort_by(f64::total_cmp);
        chosen
    };
    let (right, wrong) = (split(false), split(true));
    let wins: f64 = wrong
        .iter()
        .map(|w| {
            let (below, upto) = (right.partition_point(|r| r < w), right.partition_point(|r| r <= w));
            (right.len() - upto) as f64 + 0.5 * (upto - below) as f64
        })
        .sum();
    wins / (right.len() * wrong.len()) as f64
}
