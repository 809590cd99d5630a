//! The built-in samplers, one file each.

mod pk;
mod random;
mod shuffled_pool;

pub use pk::Pk;
pub use random::Random;
