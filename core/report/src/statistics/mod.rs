//! Means, intervals and paired tests over seeds.

mod holm;
mod paired;
mod spread;

pub use holm::holm;
pub use paired::{EXACT_SIGN_FLIPS, Test};
pub use spread::Spread;

#[cfg(test)]
mod tests;
