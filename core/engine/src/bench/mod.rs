//! Many runs from one recipe: which, and in what order. [`crate::report`] compares them.

mod pool;

pub use pool::{Event, Finished, PoolOptions, run_all};
