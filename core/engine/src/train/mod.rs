//! The training loop and its parts.

pub mod noise_report;
