//! The built-in samplers, one file each.

mod pk;
mod shuffled_pool;

mod random;

pub use pk::Pk;
pub use random::Random;
