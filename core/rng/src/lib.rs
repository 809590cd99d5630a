//! Random streams named by their purpose, independent of when they are drawn.
//!
//! Every random decision has its own stream, named by (seed, purpose, epoch, index). Results therefore do not
//! depend on the number of threads or the order of work, and a resumed run needs no saved generator state.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The generator of one purpose, e.g. `stream(seed, "sampler", epoch, 0)`.
pub fn stream(seed: u64, purpose: &str, epoch: u64, index: u64) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(key(seed, purpose, epoch, index))
}

/// A seed for other generators, e.g. libtorch's.
pub fn seed_for(seed: u64, purpose: &str, epoch: u64, index: u64) -> i64 {
    let key = key(seed, purpose, epoch, index);
    let low = i64::from_le_bytes([key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]]);
    low & i64::MAX
}

fn key(seed: u64, purpose: &str, epoch: u64, index: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("curricle random stream 1");
    hasher.update(&seed.to_le_bytes());
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&index.to_le_bytes());
    hasher.update(purpose.as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::Rng;

    #[test]
    fn every_part_of_the_name_selects_a_different_stream() {
        let first = |seed, purpose, epoch, index| stream(seed, purpose, epoch, index).next_u64();
        let base = first(1, "noise", 2, 3);
        assert_eq!(base, first(1, "noise", 2, 3));
        for other in [first(2, "noise", 2, 3), first(1, "nois", 2, 3), first(1, "noise", 3, 3), first(1, "noise", 2, 4)]
        {
            assert_ne!(base, other);
        }
    }
}
