//! Measures images per second from files to normalised batches, and compares with torchvision and Pillow
//! if `PEER_PYTHON` has them.
//!
//! ```text
//! PEER_PYTHON=venv/bin/python taskset -c 0 cargo bench -p curricle-engine --bench loader -- FOLDER
//! PEER_PYTHON=venv/bin/python cargo bench -p curricle-engine --bench loader -- FOLDER --threads 2
//! ```
//!
//! FOLDER has one subfolder of JPEG files per class; without FOLDER, 400 images of 500 × 375 pixels are
//! generated. Both sides take random resized crops of 224 pixels from the same files, in batches of 64,
//! and normalise them. They alternate, so that other load on the machine affects both; ratios are of
//! medians. `taskset` gives both the same single core; with `--threads N` the torchvision side has N
//! worker processes. `--shrink N` sets `images.shrink`, which torchvision does not have.
//! `benches/loader_peer.py` is the torchvision side.

#[path = "../../../benches/cpu.rs"]
mod cpu;

use curricle_engine::data::{self, View};
use curricle_engine::device;
use curricle_recipe::{DataRecipe, FolderRecipe, ImagesRecipe, SplitRecipe};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tch::{Device, Kind, Tensor};

type Failure = Box<dyn std::error::Error>;

const SIZE: usize = 224;
const ROUNDS: usize = 5;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |flag: &str| -> Result<Option<usize>, Failure> {
        let Some(i) = args.iter().position(|arg| arg == flag) else { return Ok(None) };
        Ok(Some(args.get(i + 1).ok_or(format!("{flag} needs a number"))?.parse()?))
    };
    let (threads, shrink) = (number("--threads")?.unwrap_or(1), number("--shrink")?);
    let drawn = tempfile::tempdir()?;
    let folder = match args.first().filter(|arg| !arg.starts_with("--")) {
        Some(folder) => PathBuf::from(folder).canonicalize()?,
        None => draw(drawn.path())?,
    };
    device::set_threads(Some(threads))?;
    println!("{}", cpu::name());
    tch::set_num_threads(1);

    let recipe = DataRecipe::Folder(FolderRecipe { path: folder.clone(), split: SplitRecipe::None });
    let inputs = data::load(&recipe, &ImagesRecipe { size: SIZE, shrink, ..ImagesRecipe::default() })?.train.inputs;
    let all: Vec<i64> = (0..inputs.len() as i64).collect();
    let batches: Vec<Vec<i64>> = all.chunks(64).map(<[i64]>::to_vec).collect();
    let [mean, deviation] = [[0.485f32, 0.456, 0.406], [0.229, 0.224, 0.225]];
    let per_channel = |values: [f32; 3]| Tensor::from_slice(&values).view([1, 3, 1, 1]) * 255.0;
    let (mean, deviation) = (per_channel(mean), per_channel(deviation));
    let ours = |epoch: u64| -> Result<f64, Failure> {
        let start = Instant::now();
        for samples in inputs.feed(&batches, 0, View::Train { seed: 0, epoch }, Device::Cpu)? {
            let _normalised = (samples?.inputs.to_kind(Kind::Float) - &mean) / &deviation;
        }
        Ok(start.elapsed().as_secs_f64())
    };

    let workers = if threads == 1 { 0 } else { threads };
    let mut peer =
        std::env::var("PEER_PYTHON").ok().map(|python| Peer::start(&python, &folder, workers)).transpose()?;
    ours(0)?;
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        our_times.push(ours(round as u64 + 1)?);
        if let Some(peer) = &mut peer {
            peer_times.push(peer.once()?);
        }
    }
    let rate = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        inputs.len() as f64 / times[times.len() / 2]
    };
    let ours = rate(&mut our_times);
    println!("{} images, {threads} threads, medians of {ROUNDS} rounds", inputs.len());
    println!("curricle              {ours:8.1} images/s");
    if peer.is_some() {
        let theirs = rate(&mut peer_times);
        println!("torchvision, Pillow   {theirs:8.1} images/s");
        println!("ratio                 {:8.2}", ours / theirs);
    }
    Ok(())
}

/// Generates images with structure at all scales.
fn draw(folder: &Path) -> Result<PathBuf, Failure> {
    for class in 0..4u32 {
        std::fs::create_dir(folder.join(class.to_string()))?;
        for sample in 0..100u32 {
            let image = image::RgbImage::from_fn(500, 375, |x, y| {
                let (x, y) = (x as f32 / 50.0, y as f32 / 50.0);
                let wave = |a: f32, b: f32| ((a * x + b * y + sample as f32).sin() + (a * x * y / 3.0).cos()) * 60.0;
                image::Rgb([wave(1.0, 2.0), wave(3.0, 0.5), wave(0.3, 7.0)].map(|v| (128.0 + v) as u8))
            });
            image.save(folder.join(format!("{class}/{sample}.jpg")))?;
        }
    }
    Ok(folder.to_path_buf())
}

struct Peer {
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Peer {
    fn start(python: &str, folder: &Path, workers: usize) -> Result<Self, Failure> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/loader_peer.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(folder)
            .args([SIZE.to_string(), workers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Self { input: input.ok_or("no input")?, output: BufReader::new(output.ok_or("no output")?) })
    }

    fn once(&mut self) -> Result<f64, Failure> {
        writeln!(self.input, "again")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.trim().parse().map_err(|_| "the peer gave no answer".into())
    }
}
