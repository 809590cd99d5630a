//! Single components on tensors from a file, for comparing an implementation with a reference.

pub mod loss;
mod settings;
pub mod weights;

pub use settings::parse_settings;
