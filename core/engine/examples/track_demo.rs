//! Writes the log folders of three simulated runs, to view in TensorBoard:
//!
//! ```text
//! cargo run --release -p curricle-engine --example track_demo
//! tensorboard --logdir target/track_demo --bind_all=false
//! ```

use curricle_engine::progress::{EpochSummary, Progress, ProgressMode};
use curricle_engine::run::projector;
use curricle_engine::track::grid::{retrieval_grid, sample_grid};
use curricle_engine::track::{HParams, SessionStatus, Tracker, logging};
use serde_json::json;
use std::path::Path;
use tch::{Device, Kind, Tensor};

const EPOCHS: u64 = 8;
const STEPS: u64 = 25;

fn main() -> curricle_engine::Result<()> {
    logging::init(1, logging::colour_wanted());
    let root = Path::new("target/track_demo");
    for (loss, seed) in [("ms", 0), ("ms", 1), ("rdml", 0)] {
        run(&root.join(loss).join(format!("seed-{seed}")), loss, seed)?;
    }
    Ok(())
}

/// A run that is interrupted in the middle of its fifth epoch and resumed after the fourth.
fn run(folder: &Path, loss: &str, seed: u64) -> curricle_engine::Result<()> {
    pretend(folder, loss, seed, None, 4 * STEPS + 10)?.finish(SessionStatus::Interrupted)?;
    pretend(folder, loss, seed, Some(4), EPOCHS * STEPS)?.finish(SessionStatus::Success)
}

fn pretend(
    folder: &Path,
    loss: &str,
    seed: u64,
    epochs_done: Option<u64>,
    end: u64,
) -> curricle_engine::Result<Tracker> {
    let first = epochs_done.unwrap_or(0) * STEPS;
    let mut tracker = Tracker::create(folder, epochs_done.map(|epochs| epochs * STEPS))?;
    let _log = logging::attach_file(&folder.join("log.txt"))?;
    let setting = if loss == "ms" { "alpha" } else { "eta" };
    let settings = json!({"seed": seed, "loss": {"name": loss, setting: 2.0}, "train": {"epochs": EPOCHS}});
    tracker.hparams(&HParams::from_settings(format!("{loss}-group"), &settings).without("seed"))?;
    tracker.text("recipe", &format!("```toml\n[loss]\nname = \"{loss}\"\n{setting} = 2.0\n```"), 0);

    tch::manual_seed(seed as i64);
    let options = (Kind::Float, Device::Cpu);
    let shade = Tensor::linspace(0, 255, 32 * 32, options).view([1, 1, 32, 32]);
    let images = ((Tensor::randint(160, [60, 1, 1, 1], options) + shade * 0.4).to_kind(Kind::Uint8)).contiguous();
    let mut progress = Progress::new(ProgressMode::detect(false), EPOCHS, STEPS, epochs_done.unwrap_or(0), 0);
    for step in first + 1..=end {
        let (epoch, done) = ((step - 1) / STEPS + 1, step as f64 / (EPOCHS * STEPS) as f64);
        let value = (-2.0 * done).exp() + 0.05 * ((step * 7 + seed) as f64).sin();
        tracker.scalars(
            &[("train/loss", value), ("train/lr", 0.1 * (1.0 - done)), ("time/step", 0.02)],
            step,
            epoch,
        )?;
        std::thread::sleep(std::time::Duration::from_millis(if std::env::var_os("SLOW").is_some() { 40 } else { 0 }));
        progress.advance(1, 64, step.is_multiple_of(5).then_some(value));
        if step.is_multiple_of(STEPS) {
            let recall = 0.4 + 0.4 * done;
            tracker.scalars(
                &[("eval/recall@1", recall), ("eval/recall@2", recall + 0.1), ("eval/nmi", recall)],
                step,
                epoch,
            )?;
            let weights: Vec<f64> = (0..1000).map(|i| (i as f64 / 999.0).powf(1.0 - 0.9 * done)).collect();
            tracker.histogram("weights/all", &weights, step, epoch)?;
            let right: Vec<bool> = (0..24).map(|i| (i * 5) % 7 < 4).collect();
            let grid = retrieval_grid(&images.narrow(0, 0, 4), &images.narrow(0, 4, 24), &right)?;
            tracker.image("eval/neighbours", &grid, step)?;
            let captions: Vec<String> = (0..12).map(|i| format!("w {:.3}\nstroke_{i}", i as f64 / 11.0)).collect();
            tracker.image("weights/lowest", &sample_grid(&images.narrow(0, 0, 12), &captions, 6)?, step)?;
            progress.epoch_done(&EpochSummary { loss: value, recall_at_1: Some(recall) });
            tracing::info!(target: "curricle", "epoch {epoch} done");
            tracker.flush()?;
        }
    }
    progress.finish();
    let embeddings = Tensor::randn([60, 8], options);
    let names: Vec<String> = (0..60).map(|i| format!("class {}", i % 6)).collect();
    let paths: Vec<String> = (0..60).map(|i| format!("test/{i}.png")).collect();
    let columns = [("class", &names[..]), ("sample", &paths[..])];
    let points = projector::Points {
        name: "test embeddings",
        embeddings: &embeddings,
        columns: &columns,
        inputs: Some(&curricle_engine::data::Inputs::Images(images)),
    };
    projector::write(folder, &points, projector::DEFAULT_LIMIT)?;
    Ok(tracker)
}
