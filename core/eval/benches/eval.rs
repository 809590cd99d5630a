//! Measures the speed and memory of evaluation, and compares with faiss if `PEER_PYTHON` has it.
//!
//! ```text
//! cargo bench -p curricle-eval --bench eval
//! PEER_PYTHON=venv/bin/python cargo bench -p curricle-eval --bench eval
//! cargo bench -p curricle-eval --bench eval -- memory
//! ```
//!
//! Both sides use the same data and number of threads, and alternate, so that other load on the machine
//! affects both; ratios are of medians. `benches/eval_peer.py` is the faiss side. If faiss takes several
//! times as long, its OpenBLAS may not recognise the CPU: set `OPENBLAS_CORETYPE`, e.g. to `SkylakeX`.
//! `memory` evaluates a set of the size of SOP's test split and prints the peak memory above the
//! embeddings and the process's initial memory.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use curricle_eval::{EvalInput, EvalOptions, KmeansOptions, evaluate, kmeans};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;
use tch::{Device, Kind, Tensor};

type Failure = Box<dyn std::error::Error>;

const THREADS: usize = 2;
const SAMPLES: i64 = 20_000;
const CLASSES: i64 = 3_000;
const DIM: i64 = 512;
const ROUNDS: usize = 5;

fn main() -> Result<(), Failure> {
    tch::set_num_threads(THREADS as i32);
    rayon::ThreadPoolBuilder::new().num_threads(THREADS).build_global()?;
    if std::env::args().any(|a| a == "memory") {
        return memory();
    }
    let (x, labels) = classes(SAMPLES, CLASSES);
    let mut peer = std::env::var("PEER_PYTHON").ok().map(|python| Peer::start(&python, &x)).transpose()?;
    println!("{}", cpu::name());
    println!("{SAMPLES} x {DIM}, {CLASSES} classes, {THREADS} threads, medians of {ROUNDS} rounds");

    let options = EvalOptions { recall_at: vec![1, 2, 4, 8, 16, 32], cluster: None };
    let search = || -> Result<f64, Failure> {
        let metrics = evaluate(&EvalInput { embeddings: &x, labels: &labels, query: None }, &options)?;
        Ok(metrics.recall[&1])
    };
    compare("search", "recall@1", search, peer.as_mut())?;
    let cluster = || -> Result<f64, Failure> {
        let options =
            KmeansOptions { clusters: CLASSES as usize, iterations: 20, tolerance: 0.0, ..KmeansOptions::default() };
        Ok(kmeans(&x, &options)?.inertia)
    };
    compare("kmeans", "inertia", cluster, peer.as_mut())
}

/// Runs both sides alternately and prints their medians.
fn compare(
    task: &str,
    outcome: &str,
    ours: impl Fn() -> Result<f64, Failure>,
    mut peer: Option<&mut Peer>,
) -> Result<(), Failure> {
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    let (mut our_outcome, mut peer_outcome) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        our_outcome = ours()?;
        our_times.push(start.elapsed().as_secs_f64());
        if let Some(peer) = &mut peer {
            let (seconds, outcome) = peer.run(task)?;
            peer_times.push(seconds);
            peer_outcome = outcome;
        }
    }
    let seconds = median(&mut our_times);
    println!("{task}: curricle {seconds:.2} s, {outcome} {our_outcome:.4}");
    if peer.is_some() {
        let peer_seconds = median(&mut peer_times);
        println!("{task}: faiss    {peer_seconds:.2} s, {outcome} {peer_outcome:.4}");
        println!("{task}: curricle is {:.2} times as fast", peer_seconds / seconds);
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Gaussian classes on the unit sphere: centres with standard deviation 1, samples around them with 1.5.
fn classes(samples: i64, classes: i64) -> (Tensor, Vec<i64>) {
    curricle_torch::seed(0).expect("a seed");
    let options = (Kind::Float, Device::Cpu);
    let labels: Vec<i64> = (0..samples).map(|i| i % classes).collect();
    let x = Tensor::randn([classes, DIM], options).index_select(0, &Tensor::from_slice(&labels));
    for start in (0..samples).step_by(4096) {
        let mut rows = x.narrow(0, start, 4096.min(samples - start));
        rows += 1.5 * Tensor::randn(rows.size(), options);
        let norms = rows.norm_scalaropt_dim(2, [1i64].as_slice(), true);
        rows /= norms;
    }
    (x, labels)
}

fn memory() -> Result<(), Failure> {
    let (samples, class_count) = (60_502, 11_316);
    // Trigger what libtorch loads on first use.
    let _ = classes(2_000, 10).0.square().sum(Kind::Float);
    let baseline = status("VmRSS:")? * 1024 + (samples * DIM * 4) as u64;
    let (x, labels) = classes(samples, class_count);
    let measure = |what: &str, work: &dyn Fn() -> Result<(), Failure>| -> Result<(), Failure> {
        fs_err::write("/proc/self/clear_refs", "5")?; // resets the peak to the current usage
        let start = Instant::now();
        work()?;
        let seconds = start.elapsed().as_secs_f64();
        let above = (status("VmHWM:")? * 1024).saturating_sub(baseline) as f64 / 1e9;
        println!("{samples} x {DIM}, {what}: {above:.2} GB above the embeddings, {seconds:.0} s");
        Ok(())
    };
    for recall_at in [vec![1, 8, 16, 32, 64, 128], vec![1, 10, 100, 1000]] {
        let options = EvalOptions { recall_at, cluster: None };
        measure(&format!("Recall@{:?}", options.recall_at), &|| {
            evaluate(&EvalInput { embeddings: &x, labels: &labels, query: None }, &options)?;
            Ok(())
        })?;
    }
    // Later iterations need less memory than the first ones.
    let options = KmeansOptions { clusters: class_count as usize, iterations: 2, ..KmeansOptions::default() };
    measure("two iterations of k-means", &|| {
        kmeans(&x, &options)?;
        Ok(())
    })
}

/// A field of `/proc/self/status`, in kilobytes.
fn status(field: &str) -> Result<u64, Failure> {
    let text = fs_err::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|l| l.strip_prefix(field)).ok_or("no such field in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// The faiss process, which reads tasks from its standard input.
struct Peer {
    process: Child,
    tasks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &str, x: &Tensor) -> Result<Self, Failure> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/eval_peer.py");
        let mut process = Command::new(python)
            .args([script, &SAMPLES.to_string(), &DIM.to_string(), &CLASSES.to_string(), &THREADS.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut tasks = process.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(process.stdout.take().ok_or("no standard output")?);
        let values: Vec<f32> = x.view(-1).try_into()?;
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        tasks.write_all(&bytes)?;
        Ok(Self { process, tasks, answers })
    }

    /// The seconds taken and the result.
    fn run(&mut self, task: &str) -> Result<(f64, f64), Failure> {
        writeln!(self.tasks, "{task}")?;
        self.tasks.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let (seconds, outcome) = answer.trim().split_once(' ').ok_or("the peer gave no answer")?;
        Ok((seconds.parse()?, outcome.parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
