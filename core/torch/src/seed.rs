//! The seed of libtorch's random generators.

use crate::Result;
use crate::ffi::{check, curricle_seed};

/// Seeds libtorch's generators on the CPU and on all CUDA devices.
///
/// Use this instead of `tch::manual_seed`, which ends the process if a CUDA device has failed.
pub fn seed(seed: i64) -> Result<()> {
    // SAFETY: the call takes a plain value.
    check(unsafe { curricle_seed(seed) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |number| {
            seed(number).unwrap();
            Tensor::randn([4], (Kind::Double, Device::Cpu))
        };
        assert_ne!(draw(1), draw(2));
        // Tests that run at the same time draw from the same generator, so a single attempt can fail.
        assert!((0..100).any(|_| draw(i64::MAX) == draw(i64::MAX)));
    }
}
