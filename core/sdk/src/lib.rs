//! Everything the author of a curricle component needs.
//!
//! A component is a loss, a sampler or a weight scheme: a plain struct whose fields are the settings in a recipe,
//! one trait that does the work, and one line that registers it:
//!
//! ```
//! use curricle_sdk::prelude::*;
//!
//! /// Pulls positive pairs together and pushes nothing apart.
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
//!         let gap = (self.margin - batch.similarities()).relu();
//!         Ok(weighted_mean(&gap, &(batch.pairs().positive * batch.pair_weights())))
//!     }
//! }
//!
//! register_loss!("attract", Attract, "pulls pairs of one class together");
//! ```
//!
//! Components hold no tensors and no state. They *declare* the tensors they need beyond their inputs
//! ([`TensorSpec`]); the engine creates, seeds, places, optimises, checkpoints and restores them, so every component
//! can be resumed.
//!
//! Losses that compute their own gradient, as the built-in ones do, use [`gradients`].

#![deny(missing_docs)]

mod advice;
mod component;
mod error;
mod guard;
mod log;
mod loss;
mod mm;
mod sampler;
mod step_info;
mod tensors;
mod weights;

pub mod abi;
pub mod gradients;
pub mod host;
pub use curricle_rng as rng;

pub use advice::{Advice, DataFacts};
pub use component::{
    Component, ComponentKind, Factory, LossFactory, SamplerFactory, Settings, WeightsFactory, registered,
};
pub use error::{Error, Result};
pub use gradients::weighted_mean;
pub use guard::guard;
pub use log::Log;
pub use loss::{Batch, Loss, PairMasks, Pairs};
pub use mm::{addmm, mm};
pub use sampler::{Epoch, Sampler};
pub use step_info::StepInfo;
pub use tensors::{Init, Shape, TensorSpec, Tensors};
pub use weights::{LossInfo, Round, WeightScheme, WeightUpdate, maw_sdaw};

/// The crates whose types appear in this crate's interface, in the versions it was built with.
pub use {inventory, rand, rand_chacha, schemars, serde, serde_json, tch};

/// Everything a component file usually imports.
pub mod prelude {
    pub use crate::{
        Advice, Batch, DataFacts, Epoch, Error, Init, Log, Loss, PairMasks, Pairs, Result, Round, Sampler, Shape,
        StepInfo, TensorSpec, Tensors, WeightScheme, WeightUpdate, register_loss, register_sampler, register_weights,
        rng, weighted_mean,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use tch::{self, Device, Kind, Tensor};
}
