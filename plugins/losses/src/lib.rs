//! The built-in losses, one file each.
//!
//! Every loss here is a function of pairwise similarities or distances of the batch, and its
//! derivative by them has a short closed form, which the papers print themselves. So each file
//! computes the value and that derivative next to each other, without recording a graph, and
//! `embeddings.rs` joins both into one differentiable scalar. That takes about a third of the
//! operations automatic differentiation would, and a training step at batch 64 consists of
//! little else than the cost of starting operations. Finite differences check every derivative.
//!
//! To add a loss: one file with settings, formula, [`curricle_sdk::Loss`] and a `register_loss!`
//! line, one `mod` line below, and one line in `tests/suite/main.rs` that puts it through all checks.

mod distances;
mod embeddings;
mod informative;
mod masks;
mod means;
mod triplets;

mod bspml;
mod contrastive;
mod fastap;
mod margin;
mod ms;
mod proxy_anchor;
mod rdml;
mod snr;
mod triplet;

pub use bspml::{Bspml, ZeroWeight};
pub use contrastive::{Contrastive, Distance};
pub use fastap::FastAp;
pub use margin::{LearnBeta, Margin, Sampling};
pub use ms::MultiSimilarity;
pub use proxy_anchor::ProxyAnchor;
pub use rdml::Rdml;
pub use snr::Snr;
pub use triplet::{Mining, Triplet};

use curricle_sdk::{Error, Result};

/// Refuses a setting that is not a number above 0.
fn positive(path: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(path, format!("must be a number above 0, is {value}")))
}

/// Refuses a setting that is negative or not a number.
fn not_negative(path: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(path, format!("must be a number, 0 or more, is {value}")))
}

/// Refuses a setting that is infinite or not a number.
fn finite(path: &str, value: f64) -> Result<()> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(path, format!("must be a finite number, is {value}")))
}
