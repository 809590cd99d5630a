//! Means, intervals and paired tests over seeds.

mod holm;
mod paired;
mod spread;

pub(crate) use holm::holm;
pub(crate) use paired::EXACT_SIGN_FLIPS;
pub use paired::Test;
pub use spread::Spread;

#[cfg(test)]
mod tests;
