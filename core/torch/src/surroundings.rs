//! State of libtorch, the thread and the process that a component could leave changed.

use std::path::PathBuf;

/// What the numbers of `surroundings.cpp` are, in its order.
const NAMES: [&str; 9] = [
    "gradient mode",
    "autocast on the CPU",
    "autocast on CUDA",
    "the number of threads",
    "the rounding mode",
    "the default floating-point type",
    "the deterministic mode",
    "the flushing of denormal numbers",
    "anomaly detection",
];

unsafe extern "C" {
    fn curricle_surroundings(values: *mut i32);
    fn curricle_restore_surroundings(values: *const i32);
}

/// The surroundings of a call: gradient mode, autocast, threads, rounding and the like, and the working directory.
#[derive(Debug)]
pub struct Surroundings {
    values: [i32; NAMES.len()],
    directory: Option<PathBuf>,
}

impl Surroundings {
    /// The present state.
    pub fn capture() -> Self {
        let mut values = [0; NAMES.len()];
        // SAFETY: the function writes as many numbers as there are names.
        unsafe { curricle_surroundings(values.as_mut_ptr()) };
        Self { values, directory: std::env::current_dir().ok() }
    }

    /// Restores this state and names the first thing that had been changed.
    pub fn restore(&self) -> Option<&'static str> {
        let now = Self::capture();
        if now.values != self.values {
            // SAFETY: the function reads as many numbers as there are names.
            unsafe { curricle_restore_surroundings(self.values.as_ptr()) };
        }
        let moved = now.directory != self.directory;
        if let Some(directory) = self.directory.as_ref().filter(|_| moved) {
            // If it is gone, relative paths fail with their own errors.
            let _ = std::env::set_current_dir(directory);
        }
        let changed = NAMES.iter().zip(now.values.iter().zip(self.values)).find(|(_, (now, was))| **now != *was);
        changed.map(|(name, _)| *name).or(moved.then_some("the working directory"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_modes_are_named_and_restored() {
        let before = Surroundings::capture();
        assert_eq!(before.restore(), None);
        std::mem::forget(tch::no_grad_guard());
        std::mem::forget(crate::Autocast::enter(tch::Device::Cpu, tch::Kind::BFloat16).unwrap());
        assert_eq!(before.restore(), Some("gradient mode"));
        assert_eq!(before.restore(), None);
        let x = tch::Tensor::ones([2, 2], (tch::Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
        let product = x.matmul(&x);
        assert!(product.requires_grad() && product.kind() == tch::Kind::Float);
    }
}
