//! Objective against time for both solvers of `balanced_self_paced`, and how well their weights detect
//! wrong labels: `cargo bench -p curricle-weights --bench solvers -- FILE… [--seeds N] [--out DIR]`.
//!
//! A `FILE` is the `samples.csv` of a run with this weight scheme, whose last ξ± are used, or a
//! safetensors file with `features [N,F]` and `labels [N]` sorted by label, whose first 100 classes are
//! used, centred, with a fifth of the labels flipped at random for each seed. Tables are printed; the
//! curves of the first case are written to `DIR/solvers.csv` and `DIR/solvers.svg`.

use curricle_sdk::rng::stream;
use curricle_weights::classes::Classes;
use curricle_weights::problem::WeightProblem;
use curricle_weights::solver::Solver;
use curricle_weights::target::lambda_for_maw;
use curricle_weights::xi::{Xi, XiConstants, xi};
use rand::RngExt;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;
use tch::{Kind, Tensor};

const TARGET_MAW: f64 = 0.8;
const NOISE: f64 = 0.2;
const CLASSES: i64 = 100;
/// Step sizes of the sampled solver, in mean class sizes, and their decays.
const STEPS: [f64; 4] = [0.3, 1.0, 3.0, 10.0];
const DECAYS: [f64; 2] = [1.0, 0.1];
const PASSES: [usize; 8] = [1, 2, 5, 10, 20, 50, 100, 300];
const SWEEPS: [usize; 7] = [1, 2, 3, 4, 6, 10, 1000];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let value = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|i| arguments.get(i + 1));
    let seeds: u64 = value("--seeds").map_or(1, |n| n.parse().expect("a number of seeds"));
    let out = value("--out").map_or_else(|| PathBuf::from("target/solvers"), PathBuf::from);
    let files: Vec<_> = arguments.iter().take_while(|a| !a.starts_with("--")).collect();
    if files.is_empty() {
        println!("no file given; train with `balanced_self_paced` and pass the run's `samples.csv`");
    }
    let mut first = true;
    for file in files {
        let features = file.ends_with(".safetensors");
        for seed in 0..if features { seeds } else { 1 } {
            println!("{file}");
            let difficulty = if features { of_features(file, seed) } else { of_run(file) };
            let curves = compare(&difficulty, seed);
            if std::mem::take(&mut first) {
                std::fs::create_dir_all(&out).expect("the folder can be made");
                std::fs::write(out.join("solvers.csv"), csv(&curves)).expect("the curves can be written");
                std::fs::write(out.join("solvers.svg"), svg(&curves)).expect("the figure can be written");
            }
        }
    }
}

/// The difficulty of each sample, with its label and whether that is known to be wrong.
struct Difficulty {
    labels: Vec<i64>,
    flipped: Vec<bool>,
    xi: Xi,
}

/// ξ± of the last round of a run.
fn of_run(path: &str) -> Difficulty {
    let table = std::fs::read_to_string(path).expect("the table can be read");
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let place = |name: &str| header.iter().position(|h| *h == name).expect("the column");
    let (label, pos, neg, flipped) = (place("label"), place("xi_pos"), place("xi_neg"), place("flipped"));
    let rows: Vec<_> = lines.collect();
    let mut names: Vec<&str> = rows.iter().map(|row| row[label]).collect();
    names.sort_unstable();
    names.dedup();
    let number = |text: &str| text.parse().expect("a number");
    Difficulty {
        labels: rows.iter().map(|row| names.partition_point(|name| *name < row[label]) as i64).collect(),
        flipped: rows.iter().map(|row| row[flipped] == "true").collect(),
        xi: Xi {
            pos: rows.iter().map(|row| number(row[pos])).collect(),
            neg: rows.iter().map(|row| number(row[neg])).collect(),
        },
    }
}

/// ξ± of the first classes of a feature file with labels flipped by this seed.
fn of_features(path: &str, seed: u64) -> Difficulty {
    let all = Tensor::read_safetensors(path).expect("a safetensors file");
    let get = |name: &str| &all.iter().find(|(n, _)| n == name).expect("`features` and `labels`").1;
    let labels: Vec<i64> = Vec::try_from(get("labels")).expect("i64 labels");
    let labels: Vec<i64> = labels.into_iter().take_while(|&label| label < CLASSES).collect();
    let rows = get("features").narrow(0, 0, labels.len() as i64).to_kind(Kind::Float);
    let rows = &rows - rows.mean_dim([0i64].as_slice(), true, None);
    let rows = &rows / rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true);

    let mut rng = stream(seed, "noise", 0, 0);
    let flipped: Vec<bool> = labels.iter().map(|_| rng.random::<f64>() < NOISE).collect();
    let noisy = labels.iter().zip(&flipped);
    let labels: Vec<i64> =
        noisy.map(|(&l, &f)| if f { (l + rng.random_range(1..CLASSES)) % CLASSES } else { l }).collect();
    let constants = XiConstants { alpha: 2.0, beta: 50.0, rho: 0.5 };
    let xi = xi(&rows, &Classes::new(&labels), &constants).expect("finite features");
    Difficulty { labels, flipped, xi }
}

/// Objective over time of one solver with one setting.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Runs both solvers on the same problem and prints the results.
fn compare(difficulty: &Difficulty, seed: u64) -> Vec<Curve> {
    let Difficulty { labels, flipped, xi: Xi { pos, neg } } = difficulty;
    let classes = Classes::new(labels);
    let start = vec![1.0; labels.len()];
    let at = |lambda: f64| WeightProblem { classes: &classes, xi_pos: pos, xi_neg: neg, lambda, mu: lambda };
    let problem = at(lambda_for_maw(at, TARGET_MAW, &start, seed, 1));
    println!(
        "seed {seed}: {} samples in {} classes, {} labels flipped, λ = μ = {:.4}",
        labels.len(),
        classes.count(),
        flipped.iter().filter(|f| **f).count(),
        problem.lambda
    );
    println!("{:<34}{:>10}{:>12}{:>8}{:>10}", "", "seconds", "objective", "MAW", "AUROC");
    let run = |name: &str, solver: &dyn Fn(usize) -> Solver, lengths: &[usize]| {
        let mut points = vec![(0.0, problem.objective(&start))];
        let mut weights = Vec::new();
        for &length in lengths {
            let started = Instant::now();
            // Random draws depend on the seed only, so a longer run continues a shorter one.
            weights = solver(length).solve(&problem, &start, seed, 1).weights;
            points.push((started.elapsed().as_secs_f64(), problem.objective(&weights)));
        }
        let (seconds, objective) = points[points.len() - 1];
        let low: Vec<f64> = weights.iter().map(|w| -w).collect();
        let maw = classes.maw_sdaw(&weights).0;
        println!("{name:<34}{seconds:>10.4}{objective:>12.6}{maw:>8.3}{:>10.4}", auroc(&low, flipped));
        (Curve { name: name.to_string(), points }, weights)
    };
    let (exact, weights) = run("exact", &|sweeps| Solver::Exact { sweeps, tolerance: 1e-9 }, &SWEEPS);
    let mut curves = vec![exact];
    let mean_size = labels.len() as f64 / classes.count() as f64;
    for share in STEPS {
        for decay in DECAYS {
            let sampled = |passes: usize| {
                let (step, iterations) = (Some(share * mean_size), Some(passes * labels.len()));
                Solver::DoublyStochastic { classes: 16, per_class: 4, step, decay, iterations }
            };
            let name = format!("sampled, step {:.0}, decay {decay}", share * mean_size);
            curves.push(run(&name, &sampled, &PASSES).0);
        }
    }

    // How much of the AUROC is due to the ranking, and how much to most weights being 0 or 1?
    let sum: Vec<f64> = pos.iter().zip(neg).map(|(p, n)| p + n).collect();
    let rejected = weights.iter().filter(|w| **w < 0.5).count();
    let mut sorted = sum.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let cut = sorted[rejected.min(sorted.len() - 1)];
    let as_many: Vec<f64> = sum.iter().map(|s| f64::from(*s > cut)).collect();
    let slope = problem.gradient(&weights);
    let slope: Vec<f64> = (0..labels.len()).map(|a| slope[a] * classes.size(classes.of(a)) as f64).collect();
    println!("{:<64}{:>10.4}", "exact: N^c ∂L/∂w as a score", auroc(&slope, flipped));
    println!("{:<64}{:>10.4}", "ξ⁺+ξ⁻ as a score", auroc(&sum, flipped));
    println!("{:<64}{:>10.4}", format!("ξ⁺+ξ⁻, the {rejected} largest against the others"), auroc(&as_many, flipped));
    println!("{:<64}{:>10.4}", "ξ⁺ as a score", auroc(pos, flipped));
    println!("{:<64}{:>10.4}\n", "ξ⁻ as a score", auroc(neg, flipped));
    curves
}

/// Share of (wrong, right) pairs in which the wrong label has the higher score; ties count half.
fn auroc(scores: &[f64], flipped: &[bool]) -> f64 {
    let split = |wanted: bool| {
        let mut chosen: Vec<f64> = scores.iter().zip(flipped).filter(|(_, f)| **f == wanted).map(|(s, _)| *s).collect();
        chosen.sort_by(f64::total_cmp);
        chosen
    };
    let (right, wrong) = (split(false), split(true));
    let below = |s: f64| (right.partition_point(|r| *r < s) + right.partition_point(|r| *r <= s)) as f64 / 2.0;
    wrong.iter().map(|&s| below(s)).sum::<f64>() / (right.len() * wrong.len()) as f64
}

fn csv(curves: &[Curve]) -> String {
    let mut text = "solver,seconds,objective\n".to_string();
    for Curve { name, points } in curves {
        for (seconds, objective) in points {
            let _ = writeln!(text, "\"{name}\",{seconds:.6},{objective:.9}");
        }
    }
    text
}

/// Objective above the lowest one found, against seconds, both on logarithmic scales.
fn svg(curves: &[Curve]) -> String {
    const COLOURS: [&str; 9] =
        ["#000000", "#9ecae1", "#6baed6", "#4292c6", "#08519c", "#fdae6b", "#fd8d3c", "#e6550d", "#a63603"];
    let lowest = curves.iter().flat_map(|c| &c.points).map(|p| p.1).fold(f64::INFINITY, f64::min);
    let (left, top, width, height) = (70.0, 20.0, 430.0, 300.0);
    let ((t0, t1), (g0, g1)) = ((-4.0, 1.5), (-7.0, 2.0));
    let x = |seconds: f64| left + width * ((seconds.max(1e-9).log10() - t0) / (t1 - t0)).clamp(0.0, 1.0);
    let y = |gap: f64| top + height * (1.0 - ((gap.max(1e-12).log10() - g0) / (g1 - g0)).clamp(0.0, 1.0));
    let mut text = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 380\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"720\" height=\"380\" fill=\"#ffffff\"/>\n",
    );
    let (right, bottom) = (left + width, top + height);
    for power in t0 as i32..=t1 as i32 {
        let at = x(10f64.powi(power));
        let _ = writeln!(text, "<path d=\"M{at:.1} {top}V{bottom}\" stroke=\"#dddddd\"/>");
        let _ = writeln!(text, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">1e{power}</text>", bottom + 18.0);
    }
    for power in g0 as i32..=g1 as i32 {
        let at = y(10f64.powi(power));
        let _ = writeln!(text, "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#dddddd\"/>");
        let _ = writeln!(text, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">1e{power}</text>", left - 6.0, at + 4.0);
    }
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">seconds</text>",
        left + width / 2.0,
        bottom + 40.0
    );
    let middle = top + height / 2.0;
    let _ = writeln!(
        text,
        "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">objective above the lowest found</text>"
    );
    for (i, (Curve { name, points }, colour)) in curves.iter().zip(COLOURS).enumerate() {
        let path: Vec<_> = points.iter().map(|(t, l)| format!("{:.1} {:.1}", x(*t), y(l - lowest))).collect();
        let _ =
            writeln!(text, "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", path.join("L"));
        let at = top + 12.0 + 20.0 * i as f64;
        let _ = writeln!(text, "<path d=\"M515 {}h20\" stroke=\"{colour}\" stroke-width=\"2\"/>", at - 4.0);
        let _ = writeln!(text, "<text x=\"541\" y=\"{at}\">{name}</text>");
    }
    text + "</svg>\n"
}
