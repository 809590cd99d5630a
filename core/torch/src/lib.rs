//! The parts of libtorch that curricle needs and tch does not offer: autocast, pinned memory, copies of many tensors in
//! one call, optimiser steps on all parameters in one call, seeds, CUDA flags, the graph of autograd, the state that a call
//! may leave changed, gradient checkpointing, and TorchScript modules with all their tensors.
//!
//! The C++ files call libtorch; the modules here make it safe. Tensors cross as `at::Tensor *`, as they
//! do between tch and torch-sys.

mod autocast;
mod ffi;
mod graph;
mod memory;
mod recompute;
mod script;
mod seed;
mod surroundings;
mod switches;
mod update;

pub use autocast::Autocast;
pub use graph::depends;
pub use memory::{gather, pinned};
pub use recompute::recompute;
pub use script::{Script, ScriptTensor};
pub use seed::seed;
pub use surroundings::Surroundings;
pub use switches::{computes_bf16, set_deterministic, set_tf32};
pub use update::{Adam, Rmsprop, Sgd, copy, lerp, norm, scale, take_gradient, unscale};

/// Errors of libtorch as tch's error type.
pub type Result<T> = std::result::Result<T, tch::TchError>;
