//! Tests of the crate as a whole, on the runs of [`fixture`].

mod comparing;
mod formats;
mod pages;
mod values;

use super::*;
use crate::Result;
use crate::agreement::Condition;
use crate::figures::Figures;
use crate::table::layout;
use serde_json::json;
use std::path::Path;

#[allow(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../../../../tests/support/skip.rs"]
mod skip;

fn found(runs: Vec<ReportedRun>) -> FoundRuns {
    FoundRuns { runs, skipped: Vec::new() }
}

fn compared(runs: Vec<ReportedRun>) -> Comparison {
    Comparison::new(found(runs), &Selection::default()).unwrap()
}

fn against_ms() -> SummaryOptions {
    SummaryOptions { against: Some("ms".into()), ..Default::default() }
}

#[track_caller]
fn refusal(runs: Vec<ReportedRun>) -> String {
    Comparison::new(found(runs), &Selection::default()).unwrap_err().to_string()
}

/// Writes the runs of the fixture to folders, reads them back and summarises them.
fn from_folders(folder: &Path) -> Result<(Comparison, Summary)> {
    fixture::runs().iter().for_each(|run| fixture::write(run, folder));
    let comparison = Comparison::new(find(&[folder.to_path_buf()])?, &Selection::default())?;
    let summary = Summary::new(&comparison, &against_ms())?;
    Ok((comparison, summary))
}

/// Three losses, each plain and with two weight schemes, under noise.
fn losses_and_weights() -> Vec<ReportedRun> {
    under_noise(&["uniform", "balanced_self_paced", "oracle"])
}

/// Three losses with all weight schemes.
fn many_weights() -> Vec<ReportedRun> {
    under_noise(&["uniform", "self_paced", "balanced_self_paced", "prism", "knn", "oracle"])
}

fn under_noise(schemes: &[&str]) -> Vec<ReportedRun> {
    let mut runs = Vec::new();
    for (i, loss) in ["ms", "snr", "norm_softmax"].into_iter().enumerate() {
        for (j, weights) in schemes.iter().copied().enumerate() {
            for seed in 0..2 {
                let recall = 0.5 + 0.02 * i as f64 + 0.1 * j as f64 + 0.01 * seed as f64;
                let method = curricle_record::default_method(loss, weights);
                let mut run = fixture::run(&method, "noisy", seed, recall);
                run.settings["loss"]["name"] = json!(loss);
                run.settings["weights"]["name"] = json!(weights);
                (run.result.loss, run.result.weights) = (loss.into(), weights.into());
                runs.push(run);
            }
        }
    }
    runs
}
