//! Speed of ξ±, compared with the matrix products alone, and of the exact solver.
//!
//! ```text
//! cargo bench -p curricle-weights --bench weights -- [--samples N] [--repetitions N]
//! ```
//!
//! `cargo bench -p curricle-weights --bench solvers` compares the two solvers.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use curricle_sdk::mm;
use curricle_sdk::rng::stream;
use curricle_weights::classes::Classes;
use curricle_weights::problem::WeightProblem;
use curricle_weights::solver::Solver;
use curricle_weights::target::lambda_for_maw;
use curricle_weights::xi::{Xi, XiConstants, xi};
use rand::RngExt;
use std::time::Instant;
use tch::{Device, Kind, Tensor};

const CONSTANTS: XiConstants = XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|i| arguments.get(i + 1));
    let samples = value("--samples").and_then(|n| n.parse().ok()).unwrap_or(20_000);
    curricle_torch::seed(1).expect("a seed");
    println!("{}, {} threads\n", cpu::name(), tch::get_num_threads());
    let repetitions = value("--repetitions").and_then(|n| n.parse().ok()).unwrap_or(5);
    xi_against_bare_products(samples, 512, repetitions);
    exact_at_the_size_of_sop();
}

/// Rows scaled to unit norm.
fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true)
}

/// Samples around random centres, and their classes: sizes distributed like SOP's, from two upwards.
fn clusters(samples: i64, classes: i64, size: i64, spread: f64) -> (Tensor, Vec<i64>) {
    let mut rng = stream(1, "clusters", 0, 0);
    let labels: Vec<i64> =
        (0..samples).map(|i| if i < 2 * classes { i % classes } else { rng.random_range(0..classes) }).collect();
    let options = (Kind::Float, Device::Cpu);
    let centres = Tensor::randn([classes, size], options).index_select(0, &Tensor::from_slice(&labels));
    (unit(&(centres + Tensor::randn([samples, size], options) * spread)), labels)
}

/// A fifth of the labels moved to other classes.
fn with_noise(labels: &[i64]) -> Vec<i64> {
    let mut rng = stream(2, "noise", 0, 0);
    let classes = labels.iter().max().map_or(0, |last| last + 1);
    let flipped: Vec<bool> = labels.iter().map(|_| rng.random::<f64>() < 0.2).collect();
    let noisy = labels.iter().zip(&flipped);
    noisy.map(|(&l, &f)| if f { (l + rng.random_range(1..classes)) % classes } else { l }).collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn xi_against_bare_products(samples: i64, size: i64, repetitions: usize) {
    let (rows, labels) = clusters(samples, samples / 5, size, 1.0);
    let classes = Classes::new(&labels);
    let (mut bare, mut full) = (Vec::new(), Vec::new());
    // The first repetition warms up.
    for repetition in 0..=repetitions {
        let start = Instant::now();
        bare_products(&rows, 4096);
        let between = Instant::now();
        xi(&rows, &classes, &CONSTANTS).expect("finite embeddings");
        if repetition > 0 {
            bare.push((between - start).as_secs_f64());
            full.push(between.elapsed().as_secs_f64());
        }
    }
    let ratios = bare.iter().zip(&full).map(|(b, f)| b / f).collect();
    let (bare, full, ratio) = (median(bare), median(full), 100.0 * median(ratios));
    println!("ξ± of {samples} × {size}: {full:.2} s; the products alone {bare:.2} s; {ratio:.0} % of their speed\n");
}

/// The products that ξ± needs, and nothing else: tiles on and above the diagonal.
fn bare_products(rows: &Tensor, tile: i64) {
    let samples = rows.size()[0];
    for top in (0..samples).step_by(tile as usize) {
        for left in (top..samples).step_by(tile as usize) {
            let (height, width) = (tile.min(samples - top), tile.min(samples - left));
            let _ = mm(&rows.narrow(0, top, height), &rows.narrow(0, left, width).tr());
        }
    }
}

fn exact_at_the_size_of_sop() {
    let (rows, labels) = clusters(59_551, 11_318, 32, 0.5);
    let labels = with_noise(&labels);
    let classes = Classes::new(&labels);
    let Xi { pos, neg } = xi(&rows, &classes, &CONSTANTS).expect("finite embeddings");
    let all = vec![1.0; labels.len()];
    println!("exact solver, {} samples in {} classes, from w = 1", labels.len(), classes.count());
    println!("{:>8} {:>8} {:>8} {:>10} {:>8} {:>8}", "mu", "MAW", "sweeps", "gradient", "seconds", "target s");
    for share in [0.0, 0.1, 1.0, 10.0] {
        let at =
            |lambda: f64| WeightProblem { classes: &classes, xi_pos: &pos, xi_neg: &neg, lambda, mu: share * lambda };
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
