//! Components that make the mistake their settings name, and components with a memory.

use super::stop;
use curricle_sdk::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether `nan_gradient` has its fault.
pub(crate) static FAULT: AtomicBool = AtomicBool::new(true);

/// Pulls positive pairs together, with one proxy per class, a state and an optional mistake.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Faulty {
    /// The mistake to make.
    mistake: String,
    /// The step of all in which to make it.
    at: u64,
}

/// A scalar with the value of `x` and a gradient of NaN.
fn nan_gradient(x: &Tensor) -> Tensor {
    // The derivative of the root is infinite at 0, and times 0 it is NaN.
    let zero = x.sum(Kind::Float) * 0.0;
    zero.abs().sqrt() * 0.0
}

impl Loss for Faulty {
    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let scale = if self.mistake == "lr_scale" { f64::NAN } else { 1.0 };
        let std = if self.mistake == "init" { -1.0 } else { 1.0 };
        vec![
            TensorSpec::trainable("proxies", [shape.classes, shape.embedding], Init::Normal { std }).lr_scale(scale),
            TensorSpec::state("seen", [shape.samples, shape.embedding], Init::Constant(0.0)),
        ]
    }

    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let (x, proxies, seen) = (batch.embeddings, batch.tensors.get("proxies"), batch.tensors.get("seen"));
        let own = proxies.index_select(0, batch.labels);
        let loss = (x - &own).square().mean(Kind::Float);
        log.per_sample("distance", &(x - own).square().mean_dim([1i64].as_slice(), false, Kind::Float));
        if self.mistake == "nan_always" {
            return Ok(loss + nan_gradient(x));
        }
        if batch.info.global_step != self.at {
            return Ok(loss);
        }
        match self.mistake.as_str() {
            "proxies_only" => return Ok(proxies.square().mean(Kind::Float)),
            "in_place" => drop(tch::no_grad(|| x.shallow_clone().g_sub_scalar_(1.0))),
            "proxies_in_place" => drop(tch::no_grad(|| proxies.shallow_clone().g_mul_scalar_(2.0))),
            "backward" => loss.f_backward()?,
            "state" => drop(seen.shallow_clone().index_copy_(0, batch.ids, x)),
            "resize" => drop(seen.shallow_clone().resize_([3, 3])),
            "sparse" => return Ok(loss.unsqueeze(0).to_sparse_sparse_dim(1)),
            "early" => {
                let loss = x.matmul(&seen.tr()).mean(Kind::Float);
                let _ = tch::no_grad(|| seen.shallow_clone().index_copy_(0, batch.ids, x));
                return Ok(loss);
            }
            "complex_log" => log.scalar("x", || loss.detach().to_kind(Kind::ComplexFloat)),
            "sparse_log" => log.scalar("x", || loss.unsqueeze(0).to_sparse_sparse_dim(1)),
            "log_twice" => ["x", "x"].iter().for_each(|name| log.scalar(name, || loss.detach())),
            "column_twice" => log.per_sample("distance", &x.select(1, 0)),
            "gradient_mode" => std::mem::forget(tch::no_grad_guard()),
            "threads" => tch::set_num_threads(tch::get_num_threads() + 1),
            "chdir" => std::env::set_current_dir("/").map_err(|e| Error::other(e.to_string()))?,
            "nan_gradient" if FAULT.load(SeqCst) => return Ok(loss + nan_gradient(x)),
            "nan_proxies" if FAULT.load(SeqCst) => return Ok(loss + nan_gradient(proxies)),
            "stop" if FAULT.load(SeqCst) => stop().request(),
            "abort" => std::process::abort(),
            "exit" => std::process::exit(0),
            // SAFETY: none; this is the crash under test.
            "crash" => unsafe { std::ptr::null_mut::<u8>().write_volatile(1) },
            _ => {}
        }
        Ok(loss)
    }
}

register_loss!("faulty", Faulty, "makes a mistake");

/// Samples in their order, in batches of eight.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct InOrder {
    /// Whether to return the first batch only, twice.
    twice: bool,
}

impl Sampler for InOrder {
    fn batches(&self, epoch: &Epoch) -> Result<Vec<Vec<i64>>> {
        let ids: Vec<_> = (0..epoch.labels.len() as i64).collect();
        let batches: Vec<_> = ids.chunks(8).map(<[i64]>::to_vec).collect();
        Ok(if self.twice { vec![batches[0].clone(); 2] } else { batches })
    }

    fn batch_size(&self) -> usize {
        8
    }
}

register_sampler!("in_order", InOrder, "samples in their order");

/// All weights 1, unless it makes a mistake.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct FaultyWeights {
    /// The mistake to make.
    mistake: String,
}

impl WeightScheme for FaultyWeights {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let samples = round.labels.len();
        let mut update = WeightUpdate { weights: vec![1.0; samples], ..Default::default() };
        let column = |name: &str| (name.to_string(), vec![0.5; samples]);
        match (self.mistake.as_str(), round.embeddings) {
            ("in_place", Some(x)) => drop(x.shallow_clone().g_sub_(&x.mean_dim([0i64].as_slice(), true, Kind::Float))),
            ("zero", _) => update.weights.fill(0.0),
            ("not_a_number", _) => update.weights[3] = f64::NAN,
            ("reserved", _) => update.columns = vec![column("label")],
            ("twice", _) => update.columns = vec![column("a"), column("a")],
            ("logged_too", _) => update.columns = vec![column("a")],
            ("of_the_loss", _) => update.columns = vec![column("loss_distance")],
            ("scalar", _) => update.scalars = vec![("auroc".into(), 1.0)],
            _ => {}
        }
        Ok(update)
    }

    fn weigh_batch(&self, batch: &Batch, log: &mut Log) -> Result<Option<Tensor>> {
        let ones = Tensor::ones([batch.size()], batch.options());
        Ok(match self.mistake.as_str() {
            "batch_of_nan" => Some(ones * f64::NAN),
            "batch_range" => Some(ones * 1.5),
            // Only the first of two steps, and the batch is weighed again in the second.
            "batch_range_once" => Some(ones * if batch.info.step == 0 { 1.5 } else { 0.5 }),
            "batch_shape" => Some(ones.unsqueeze(0)),
            "batch_in_place" => {
                let _ = batch.embeddings.shallow_clone().g_sub_scalar_(1.0);
                None
            }
            "logged_too" => {
                log.per_sample("a", &ones);
                None
            }
            _ => None,
        })
    }
}

register_weights!("faulty", FaultyWeights, "makes a mistake");

/// Weighs each batch by the ids of its samples and counts the batches of every sample.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
struct ByStep {}

impl WeightScheme for ByStep {
    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        vec![TensorSpec::state("count", [shape.samples], Init::Constant(0.0)).kind(Kind::Int64)]
    }

    fn weigh_batch(&self, batch: &Batch, log: &mut Log) -> Result<Option<Tensor>> {
        let count = batch.tensors.get("count");
        let ones = Tensor::ones([batch.size()], (Kind::Int64, batch.ids.device()));
        let _ = count.shallow_clone().f_index_add_(0, batch.ids, &ones)?;
        let counted = count.index_select(0, batch.ids);
        log.per_sample("count", &counted);
        // Samples 0, 4, 8… have the weights 0.25 and, after the second batch, 0.5.
        let quarter = batch.ids.remainder(4).eq(0);
        let low = counted.to_kind(Kind::Float) * 0.25;
        Ok(Some(low.where_self(&quarter, &Tensor::ones([1], batch.options()))))
    }

    fn before_training(&self) -> bool {
        true
    }
}

register_weights!("by_step", ByStep, "weights of samples in every step");

/// Weights by the similarity to the moving average of the network; starts before training.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Teacher {}

impl WeightScheme for Teacher {
    fn update(&self, round: &Round) -> Result<WeightUpdate> {
        let (Some(x), Some(ema)) = (round.embeddings, round.ema_embeddings) else {
            return Err(Error::other("there are no embeddings"));
        };
        let agreement = (x * ema).sum_dim_intlist([1i64].as_slice(), false, Kind::Double).clamp(0.0, 1.0);
        let weights = Vec::<f64>::try_from(agreement)?;
        Ok(WeightUpdate { weights, scalars: vec![("round".into(), round.round as f64)], ..Default::default() })
    }

    fn needs_ema(&self) -> bool {
        true
    }

    fn before_training(&self) -> bool {
        true
    }
}

register_weights!("teacher", Teacher, "agreement with the moving average");
