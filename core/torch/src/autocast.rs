//! Autocast: mixed precision for forward passes.

use crate::Result;
use crate::ffi::{check, curricle_autocast_enter, curricle_autocast_exit};
use std::ffi::c_int;
use std::marker::PhantomData;
use tch::{Device, Kind, TchError};

/// Guard: while it lives, matrix products and convolutions of this thread run in half precision on the
/// device, and libtorch keeps operations that need the range of f32 in f32. Backward passes use the
/// precision of their forward pass and need no guard.
#[derive(Debug)]
#[must_use = "autocast ends when this is dropped"]
pub struct Autocast {
    cuda: c_int,
    was_enabled: bool,
    was_kind: c_int,
    /// libtorch keeps this state for each thread.
    this_thread: PhantomData<*const ()>,
}

impl Autocast {
    /// Enables autocast to `kind`, [`Kind::BFloat16`] or [`Kind::Half`].
    pub fn enter(device: Device, kind: Kind) -> Result<Self> {
        // As in c10/core/ScalarType.h; tch does not expose the numbers.
        let kind: c_int = match kind {
            Kind::Half => 5,
            Kind::BFloat16 => 15,
            other => return Err(TchError::Kind(format!("cannot autocast to {other:?}"))),
        };
        let cuda = c_int::from(device.is_cuda());
        let (mut was_enabled, mut was_kind) = (false, 0);
        // SAFETY: both pointers are to variables that outlive the call.
        check(unsafe { curricle_autocast_enter(cuda, kind, &raw mut was_enabled, &raw mut was_kind) })?;
        Ok(Self { cuda, was_enabled, was_kind, this_thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: the call takes plain numbers. It fails only for devices that `enter` rejects.
        let _ = check(unsafe { curricle_autocast_exit(self.cuda, self.was_enabled, self.was_kind) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Tensor;

    #[test]
    fn matrix_products_are_in_half_precision_only_while_the_guard_lives() {
        let x = Tensor::ones([4, 4], (Kind::Float, Device::Cpu));
        for kind in [Kind::BFloat16, Kind::Half] {
            let guard = Autocast::enter(Device::Cpu, kind).unwrap();
            assert_eq!(x.matmul(&x).kind(), kind);
            drop(guard);
            assert_eq!(x.matmul(&x).kind(), Kind::Float);
        }
        assert!(Autocast::enter(Device::Cpu, Kind::Int64).is_err());
    }

    #[test]
    fn guards_can_be_nested() {
        let x = Tensor::ones([4, 4], (Kind::Float, Device::Cpu));
        let _outer = Autocast::enter(Device::Cpu, Kind::BFloat16).unwrap();
        let inner = Autocast::enter(Device::Cpu, Kind::Half).unwrap();
        assert_eq!(x.matmul(&x).kind(), Kind::Half);
        drop(inner);
        assert_eq!(x.matmul(&x).kind(), Kind::BFloat16);
    }
}
