//! The built-in losses, one file each.
//!
//! They use nothing that a plugin cannot use: each file is settings, formula, a [`curricle_sdk::Loss`] and a
//! `register_loss!` line. Each loss exists twice. `reference` is the formula in plain tensor operations: read that
//! one first, and start a new loss from it. `forward` computes the same value and its closed-form gradient without
//! recording a graph (see [`curricle_sdk::gradients`]), in about a third of the operations. The tests compare both,
//! and the gradients with finite differences.
//!
//! To add a loss: one file, one `mod` line below, and one line in `tests/suite/main.rs` that runs all checks on it.
//! Plain tensor operations in `forward` are enough; a loss with a closed-form gradient also gets a `reference` and a
//! line in `tests/suite/references.rs`.

mod distance_weighted;
mod memory;
mod proxies;
mod reference;
mod triplets;

mod arcface;
mod bspml;
mod circle;
mod contrastive;
mod fastap;
mod margin;
mod ms;
mod norm_softmax;
mod proxy_anchor;
mod rdml;
mod snr;
mod soft_triple;
mod triplet;

pub use arcface::ArcFace;
pub use bspml::{Bspml, Normalisation, ZeroWeight};
pub use circle::Circle;
pub use contrastive::{Contrastive, Distance};
pub use fastap::FastAp;
pub use margin::{LearnBeta, Margin, TripletSampling};
pub use memory::CrossBatchMemory;
pub use ms::MultiSimilarity;
pub use norm_softmax::NormSoftmax;
pub use proxy_anchor::ProxyAnchor;
pub use rdml::Rdml;
pub use snr::Snr;
pub use soft_triple::SoftTriple;
pub use triplet::{Mining, Triplet};

use curricle_sdk::{Error, Result};

/// Rejects a setting that is not a finite number above 0.
fn positive(path: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(path, format!("must be a number above 0, but is {value}")))
}

/// Rejects a setting that is negative or not finite.
fn not_negative(path: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(path, format!("must not be negative, but is {value}")))
}

/// Rejects a setting that is infinite or not a number.
fn finite(path: &str, value: f64) -> Result<()> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::setting(path, format!("must be a finite number, but is {value}")))
}
