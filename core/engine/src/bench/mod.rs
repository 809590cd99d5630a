//! Many runs from one recipe: which, in what order, and what they came to together.

mod pool;
mod summary;

pub use pool::{Event, Finished, PoolOptions, run_all};
pub use summary::{Row, Spread, summarise};
