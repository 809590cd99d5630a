//! The suite passes a correct loss and finds each mistake.

use super::*;
use curricle_sdk::prelude::*;
use curricle_sdk::{Factory, LossFactory};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tch::Device;

/// How often a loss with hidden state was called.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Pulls positive pairs together, with an optional mistake.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Attract {
    /// The mistake to make.
    mistake: String,
}

impl Loss for Attract {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let weights = batch.weights.filter(|_| self.mistake != "absent");
        let (s, pairs, w) = (batch.similarities(), Batch { weights, ..*batch }.pairs(), batch.weights_or_ones());
        let terms: Tensor = (1.0 - &s) * &pairs.positive * w.unsqueeze(1);
        log.per_sample("attraction", &terms.select(1, 0));
        let terms: Tensor = terms.sum(None) / pairs.positive.sum(None).clamp_min(1.0);
        Ok(match self.mistake.as_str() {
            "gradient" => &terms + (&s - s.detach()).sum(None),
            "order" => terms * (1.0 + batch.embeddings.get(0).get(0)),
            "labels" => terms * (1.0 + batch.labels.sum(None)),
            "weights" if batch.weights.is_some() => terms * 2.0,
            "empty" => terms / pairs.positive.sum(None),
            "detached" => terms.detach(),
            "unconnected" => Tensor::ones([], batch.options()).set_requires_grad(true) * terms.detach(),
            "sparse log" => {
                log.scalar("x", || Tensor::ones([1], batch.options()).to_sparse_sparse_dim(1));
                terms
            }
            "backward" => {
                terms.backward();
                terms
            }
            // The graph of the loss itself is left, so that the suite's own backward pass works.
            "another backward" => {
                (batch.similarities() * &pairs.positive).sum(None).backward();
                terms
            }
            "no_grad" => {
                std::mem::forget(tch::no_grad_guard());
                terms
            }
            "vector" => terms.unsqueeze(0).repeat([2]),
            "remembers" => terms + CALLS.fetch_add(1, Ordering::Relaxed) as f64,
            "panic" => panic!("asked to"),
            "single" => &terms + batch.embeddings.to_kind(Kind::Float).matmul(&batch.embeddings.tr()).sum(None),
            "late" if batch.info.epoch > 0 => terms * f64::NAN,
            "inputs" => {
                let _ = batch.labels.shallow_clone().g_add_scalar_(1);
                terms
            }
            "leak" => {
                // Without `black_box` the compiler would remove the unused allocation.
                std::mem::forget(std::hint::black_box(vec![0u8; 1000]));
                terms
            }
            _ => terms,
        })
    }
}

static FACTORY: LossFactory<Attract> = LossFactory::new();

fn report(mistake: &str) -> ConformanceReport {
    let factory: &'static dyn Factory = &FACTORY;
    let component = Component {
        kind: curricle_sdk::ComponentKind::Loss,
        name: "attract",
        version: "0",
        summary: "for tests",
        factory,
    };
    let sets = if mistake.is_empty() { vec![] } else { vec![format!("mistake={mistake}")] };
    check(&component, &sets, Device::Cpu)
}

fn failures(mistake: &str) -> Vec<&'static str> {
    report(mistake).failed().map(|check| check.check).collect()
}

#[test]
fn a_correct_loss_passes() {
    // Memory is measured for the whole process, in which other tests run at the same time.
    let failed: Vec<_> = failures("").into_iter().filter(|check| *check != "leaks").collect();
    assert_eq!(failed, [""; 0]);
}

#[test]
fn each_mistake_is_found_by_its_check() {
    for (mistake, found_by) in [
        ("gradient", "gradient"),
        ("order", "permutation"),
        ("labels", "relabelling"),
        ("weights", "weights of 1"),
        ("absent", "weights of 0"),
        ("empty", "edge batches"),
        ("detached", "value"),
        ("unconnected", "value"),
        ("sparse log", "value"),
        ("backward", "value"),
        ("another backward", "value"),
        ("no_grad", "value"),
        ("vector", "value"),
        ("panic", "value"),
        ("late", "value"),
        ("inputs", "inputs untouched"),
        ("remembers", "same twice"),
        // It keeps state; it draws no random numbers, for which this check would be skipped.
        ("remembers", "permutation"),
    ] {
        let failed = failures(mistake);
        assert!(failed.contains(&found_by), "{mistake}: {failed:?}");
    }
}

#[test]
fn a_mix_of_types_is_explained_by_the_precision_of_the_check() {
    let report = report("single");
    let Some(Verdict::Failed(reason)) = report.failed().map(|check| &check.verdict).next() else { panic!("it passed") };
    assert!(reason.contains("The check computes in double precision") && reason.contains("convert to"), "{reason}");
}

/// Memory is measured for the whole process, so this runs in one without other tests.
#[test]
fn a_leak_is_found() {
    const ALONE: &str = "CURRICLE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        assert!(failures("leak").contains(&"leaks"));
        assert!(!failures("").contains(&"leaks"));
        return;
    }
    let this = ["conformance::tests::a_leak_is_found", "--exact", "--test-threads=1"];
    let output = Command::new(std::env::current_exe().unwrap()).args(this).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}
