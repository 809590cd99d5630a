//! The cost of calling a component through the C interface rather than directly.
//!
//! ```text
//! cargo bench -p curricle-sdk
//! ```
//!
//! A loss that does almost nothing is called directly and through the interface, alternating in many short rounds;
//! the medians of both and of their difference are printed. docs/abi.md promises less than 5 microseconds.

use curricle_sdk::abi::{export, host};
use curricle_sdk::prelude::*;
use curricle_sdk::{registered, serde_json};
use std::time::Instant;

/// Returns a tensor that already exists.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Nothing {}

impl Loss for Nothing {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        log.scalar("nothing", || batch.embeddings.shallow_clone());
        Ok(batch.embeddings.shallow_clone())
    }
}

register_loss!("nothing", Nothing, "for the benchmark");

const ROUNDS: usize = 400;
const CALLS: u32 = 200;

fn main() {
    let original = registered().into_iter().find(|c| c.name == "nothing").expect("registered above");
    let record = Box::leak(Box::new(export::describe(original)));
    // SAFETY: leaked, and made by `describe`.
    let component = unsafe { host::component(record) }.expect("made by `describe`");
    let across = component.factory.loss(&serde_json::json!({})).expect("has no settings");
    let direct = Nothing {};

    let embeddings = Tensor::zeros([64, 128], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let labels = Tensor::zeros([64], (Kind::Int64, Device::Cpu));
    let weights = Tensor::ones([64], (Kind::Float, Device::Cpu));
    let mut tensors = Tensors::default();
    tensors.insert("proxies", Tensor::zeros([100, 128], (Kind::Float, Device::Cpu)));
    let batch = Batch { weights: Some(&weights), ..Batch::new(&embeddings, &labels, &labels, &tensors) };
    for (what, logged) in [("a step that is not logged", false), ("a step with one logged scalar", true)] {
        let time = |loss: &dyn Loss| {
            let start = Instant::now();
            for _ in 0..CALLS {
                let mut log = if logged { Log::enabled() } else { Log::disabled() };
                let _ =
                    std::hint::black_box(curricle_sdk::guard(|| loss.forward(&batch, &mut log)).expect("does nothing"));
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
        };
        let (mut directly, mut over, mut cost) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (a, b) = (time(&direct), time(across.as_ref()));
            directly.push(a);
            over.push(b);
            cost.push(b - a);
        }
        let (a, b, c) = (median(directly), median(over), median(cost));
        println!("{what}: {a:.2} µs directly, {b:.2} µs across, {c:.2} µs more");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
