//! The built-in samplers, one file each.

mod deck;
mod pk;

mod random;

pub use pk::Pk;
pub use random::Random;
