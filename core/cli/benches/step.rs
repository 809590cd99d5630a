//! Whole training steps, including JPEG decoding, compared with PyTorch and torchvision.
//!
//! ```text
//! PEER_PYTHON=venv/bin/python cargo bench -p curricle --bench step [-- resnet18 mobilenet_v2]
//! ```
//!
//! The Python interpreter needs torch, torchvision, pytorch-metric-learning and Pillow; it also draws the images.
//! Both sides read the same files with the same number of threads: random resized crops of 224 pixels,
//! batches of 32, multi-similarity loss, AdamW. An epoch of a few batches is timed from the moment it is
//! requested, so that prefetching is not free, and the sides alternate. The peer runs twice: with PyTorch's
//! defaults, and with channels-last networks and the fused optimiser.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use curricle_losses as _;
use curricle_samplers as _;
use curricle_weights as _;

use curricle_engine::backbone::{Compute, Model};
use curricle_engine::stop::StopSignal;
use curricle_engine::track::profile::{Phase, Times};
use curricle_engine::train::components::Components;
use curricle_engine::train::{Trainer, TrainingSet};
use curricle_engine::{Experiment, Registry, data, device};
use curricle_sdk::Shape;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;
use tch::Device;

type Failure = Box<dyn std::error::Error>;

const THREADS: usize = 2;
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/step_peer.py");

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() -> Result<(), Failure> {
    let python = std::env::var("PEER_PYTHON").map_err(|_| "`PEER_PYTHON` must name a Python interpreter with torch")?;
    let (batches, rounds) = (number("STEP_BATCHES", 6), number("STEP_ROUNDS", 3));
    let chosen: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let networks = if chosen.is_empty() { vec!["resnet18".to_string(), "mobilenet_v2".into()] } else { chosen };
    device::set_threads(Some(THREADS))?;
    let folder = tempfile::tempdir()?;
    let drawn = Command::new(&python).arg(PEER).arg("draw").arg(folder.path()).status()?;
    if !drawn.success() {
        return Err("the peer could not draw the images".into());
    }
    println!("{}", cpu::name());
    for network in networks {
        compare(&python, &network, folder.path(), batches, rounds)?;
    }
    Ok(())
}

fn compare(python: &str, network: &str, folder: &Path, batches: usize, rounds: usize) -> Result<(), Failure> {
    let resolved = resolve(network, folder)?;
    let mut trainer = trainer(&resolved)?;
    let mut plain = Peer::start(python, folder, network, batches, "plain")?;
    let mut tuned = Peer::start(python, folder, network, batches, "tuned")?;
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut parts = Times::default();
    // The first round warms all sides up.
    for round in 0..=rounds {
        let seconds = [epoch(&mut trainer, batches, &mut parts)?, plain.epoch()?, tuned.epoch()?];
        if round > 0 {
            times.iter_mut().zip(seconds).for_each(|(times, seconds)| times.push(1e3 * seconds / batches as f64));
        } else {
            parts = Times::default();
        }
    }
    let [ours, plain, tuned] = times.map(median);
    println!(
        "{{\"network\": \"{network}\", \"threads\": {THREADS}, \"ours_ms\": {ours:.0}, \"pytorch_ms\": {plain:.0}, \
         \"pytorch_tuned_ms\": {tuned:.0}, \"ratio\": {:.3}, \"ratio_to_tuned\": {:.3}}}",
        ours / plain,
        ours / tuned
    );
    let of = |split: Phase| 1e3 * parts.get(split).as_secs_f64() / (batches * rounds) as f64;
    let shown: Vec<_> = Phase::STEP.iter().map(|&split| format!("{} {:.0} ms", split.name(), of(split))).collect();
    println!("  ours: {}", shown.join(", "));
    Ok(())
}

fn resolve(network: &str, folder: &Path) -> Result<Experiment, Failure> {
    let text = format!(
        r#"
        [data]
        source = "folder"
        path = "images"
        split = "none"
        [backbone]
        name = "{network}"
        [embedding]
        size = 128
        [sampler]
        name = "pk"
        classes = 8
        per_class = 4
        [loss]
        name = "ms"
        [optimizer]
        name = "adamw"
        lr = 1e-4
        [train]
        epochs = 1000
        log_every = 1000
        "#
    );
    let path = folder.join("step.toml");
    std::fs::write(&path, text)?;
    Ok(Experiment::load(&path, &[], &Registry::built_in())?)
}

fn trainer(experiment: &Experiment) -> Result<Trainer<'_>, Failure> {
    let recipe = &experiment.resolved.recipe;
    let split = data::load(&recipe.data, &recipe.images)?.train;
    let layout = split.inputs.layout();
    let mut model = Model::build(&recipe.backbone, &recipe.embedding, layout, recipe.seed, Device::Cpu)?;
    model.set_compute(Compute::choose(&recipe.train, layout, Device::Cpu).unwrap());
    let shape = Shape {
        classes: split.class_names.len() as i64,
        samples: split.len() as i64,
        embedding: recipe.embedding.size,
    };
    let components = Components::new(recipe, &experiment.method, &shape, Device::Cpu)?;
    Ok(Trainer::new(recipe, TrainingSet::new(&split, Device::Cpu), model, components)?)
}

/// Seconds that an epoch of `batches` batches takes.
fn epoch(trainer: &mut Trainer, batches: usize, phases: &mut Times) -> Result<f64, Failure> {
    let mut chosen = trainer.batches()?;
    chosen.truncate(batches);
    assert!(chosen.len() == batches && chosen.iter().all(|batch| batch.len() == 32), "batches differ from the peer's");
    let started = Instant::now();
    trainer.run_epoch(&chosen, &StopSignal::default(), |report| {
        Phase::STEP.iter().for_each(|&phase| phases.add(phase, report.times.get(phase)));
        Ok(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    trainer.finish_epoch();
    Ok(seconds)
}

/// The PyTorch process, which waits for requests.
struct Peer {
    process: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &str, folder: &Path, network: &str, batches: usize, how: &str) -> Result<Self, Failure> {
        let mut process = Command::new(python)
            .arg(PEER)
            .arg("train")
            .arg(folder)
            .args([network, &batches.to_string(), &THREADS.to_string(), how])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ask = process.stdin.take().ok_or("no standard input")?;
        let answer = BufReader::new(process.stdout.take().ok_or("no standard output")?);
        Ok(Self { process, ask, answer })
    }

    /// Seconds that an epoch takes.
    fn epoch(&mut self) -> Result<f64, Failure> {
        writeln!(self.ask, "epoch")?;
        self.ask.flush()?;
        let mut line = String::new();
        self.answer.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
