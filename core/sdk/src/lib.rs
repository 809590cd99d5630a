//! What the author of a curricle component needs, and nothing else.
//!
//! A component is a loss, a sampler or a weight scheme. It is a plain struct of settings that
//! recipes can write, one trait that does the work, and one line that registers it:
//!
//! ```
//! use curricle_sdk::prelude::*;
//!
//! /// Pulls every pair of one class together, and nothing apart.
//! #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
//! #[serde(default, deny_unknown_fields)]
//! struct Attract {
//!     /// Similarity above which a pair is close enough.
//!     margin: f64,
//! }
//!
//! impl Default for Attract {
//!     fn default() -> Self {
//!         Self { margin: 1.0 }
//!     }
//! }
//!
//! impl Loss for Attract {
//!     fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
//!         let pairs = batch.pairs();
//!         let gap = (self.margin - batch.similarities()).relu() * &pairs.positive;
//!         Ok(gap.sum(None) / pairs.positive.sum(None).clamp_min(1.0))
//!     }
//! }
//!
//! register_loss!("attract", Attract, "pulls pairs of one class together");
//! ```
//!
//! Components keep no tensors and no state. What a component needs beyond its inputs it
//! *declares* ([`TensorSpec`]); the engine creates, seeds, places, optimises, checkpoints and
//! restores it, so resuming works for components that never thought of it.

#![deny(missing_docs)]

mod advice;
mod component;
mod error;
mod guard;
mod log;
mod loss;
mod sampler;
mod tensors;
mod weights;

pub mod abi;
pub mod host;
pub use curricle_rng as rng;

pub use advice::{Advice, DataFacts};
pub use component::{Component, Factory, Kind, LossFactory, SamplerFactory, Settings, WeightsFactory, registered};
pub use error::{Error, Result};
pub use guard::guard;
pub use log::Log;
pub use loss::{Batch, Loss, Pairs};
pub use sampler::{Epoch, Sampler};
pub use tensors::{Init, Shape, TensorSpec, Tensors};
pub use weights::{LossInfo, Round, WeightScheme, WeightUpdate};

/// The crates that appear in this one's interface, in the versions it was built with.
pub use {inventory, rand, rand_chacha, schemars, serde, serde_json, tch};

/// Everything a component file usually imports.
pub mod prelude {
    pub use crate::{
        Advice, Batch, DataFacts, Epoch, Error, Init, Log, Loss, Pairs, Result, Round, Sampler, Shape, TensorSpec,
        Tensors, WeightScheme, WeightUpdate, register_loss, register_sampler, register_weights, rng,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use tch::{Device, Kind, Tensor};
}
