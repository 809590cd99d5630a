//! What curricle needs of libtorch and tch does not offer: autocast and page-locked memory without
//! warnings, updates of all parameters in one call, derivatives known in closed form, and switches of the CUDA half.
//!
//! `shim.cpp` calls libtorch; the modules here make it safe. Tensors cross as `at::Tensor *`, as they
//! do between tch and torch-sys.

mod autocast;
mod ffi;
mod memory;
mod switches;
mod update;

pub use autocast::Autocast;
pub use memory::pin;
pub use switches::{set_deterministic, set_tf32};
pub use update::{Adam, Sgd, norm, scale, take_gradient, unscale};

/// What libtorch said when it refused, in the words of tch's errors.
pub type Result<T> = std::result::Result<T, tch::TchError>;
