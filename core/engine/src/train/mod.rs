//! The training loop and its parts.

pub mod optimizer;
pub mod schedule;
