//! A whole run, start to finish, compared with a script that does the same with PyTorch, pytorch-metric-learning and
//! faiss.
//!
//! ```text
//! PEER_PYTHON=venv/bin/python cargo bench -p curricle --bench quickstart
//! ```
//!
//! `recipes/methods/ms.toml` for ten epochs: 2,000 images of 32 pixels for training and 2,000 for testing, evaluated
//! before training and after every second epoch. `benches/quickstart_peer.py` is the other side, with PyTorch's
//! defaults and tuned; it gets the resolved recipe, so that it trains the same network, and the images and labels as a
//! file, while the program draws them. Both are timed from the start of their process to its end, with as many threads
//! as the machine has cores, and alternate. `QUICKSTART_ROUNDS` sets the number of rounds, 3 by default; the ratios are
//! of medians.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use curricle_engine::{Experiment, Registry, data};
use curricle_losses as _;
use curricle_samplers as _;
use curricle_weights as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tch::Tensor;

type Failure = Box<dyn std::error::Error>;

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/methods/ms.toml");
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/quickstart_peer.py");

fn main() -> Result<(), Failure> {
    let python = std::env::var("PEER_PYTHON").map_err(|_| "`PEER_PYTHON` must name a Python interpreter with torch")?;
    let rounds = std::env::var("QUICKSTART_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = tempfile::tempdir()?;
    let images = folder.path().join("images.npz");
    let recipe = folder.path().join("recipe.json");
    write_inputs(&recipe, &images)?;
    println!("{}", cpu::name());
    let (mut ours, mut plain, mut tuned) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let out = folder.path().join(format!("round-{round}"));
        ours.push(program(&out.join("ours"))?);
        for (how, times) in [("plain", &mut plain), ("tuned", &mut tuned)] {
            times.push(peer(&python, [&recipe, &images], &out.join(how), how)?);
        }
    }
    let seconds = median(ours);
    println!("curricle: {seconds:.1} s");
    for (how, peer) in [("PyTorch", median(plain)), ("PyTorch, tuned", median(tuned))] {
        println!("{how}: {peer:.1} s, {:.2} times as long", peer / seconds);
    }
    Ok(())
}

/// The resolved recipe, and its images and labels, the training labels without noise.
fn write_inputs(resolved: &Path, images: &Path) -> Result<(), Failure> {
    let experiment = Experiment::load(Path::new(RECIPE), &[], &Registry::built_in())?;
    let recipe = &experiment.resolved.recipe;
    std::fs::write(resolved, serde_json::to_string(recipe)?)?;
    let data = data::load(&recipe.data, &recipe.images)?;
    let mut arrays = Vec::new();
    for (name, split) in [("train", &data.train), ("test", &data.test)] {
        let pixels = split.inputs.tensor().ok_or("the images are not in memory")?;
        arrays.push((format!("{name}_images"), pixels.shallow_clone()));
        arrays.push((format!("{name}_labels"), Tensor::from_slice(&split.labels)));
    }
    Ok(Tensor::write_npz(&arrays, images)?)
}

/// Seconds that the program takes.
fn program(out: &Path) -> Result<f64, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_curricle"));
    command.args(["--quiet", "run", RECIPE, "--device", "cpu", "--out"]).arg(out).stdout(Stdio::null());
    timed(command)
}

/// Seconds that the script takes.
fn peer(python: &str, inputs: [&Path; 2], out: &Path, how: &str) -> Result<f64, Failure> {
    std::fs::create_dir_all(out)?;
    let mut command = Command::new(python);
    command.arg(PEER).args(inputs).arg(out).arg(how).stdout(Stdio::null());
    timed(command)
}

fn timed(mut command: Command) -> Result<f64, Failure> {
    let started = Instant::now();
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{command:?} failed").into());
    }
    Ok(started.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
