//! Gradient checkpointing.

use crate::Result;
use crate::ffi::{Failure, check};
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tch::Tensor;
use torch_sys::C_tensor;

type Call = unsafe extern "C" fn(*mut c_void, *mut C_tensor, *mut *mut c_char) -> *mut C_tensor;
type Drop = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn curricle_recompute(
        input: *const C_tensor,
        closure: *mut c_void,
        call: Call,
        drop: Drop,
        output: *mut *mut C_tensor,
    ) -> Failure;
}

/// `segment(input)` without keeping its activations: the backward pass computes them a second time.
///
/// The segment must give the same result both times, so it must not draw random numbers. `input` must require
/// gradients; otherwise the segment's parameters get none. The segment may be called from another thread, one
/// call at a time.
pub fn recompute<F: Fn(&Tensor) -> Tensor + Send + 'static>(input: &Tensor, segment: F) -> Result<Tensor> {
    let closure = Box::into_raw(Box::new(segment)).cast::<c_void>();
    let mut output = std::ptr::null_mut();
    // SAFETY: the input is borrowed for the call. The call takes the closure, which `call::<F>` and `drop::<F>`
    // know as what it is, even if it fails; on success it returns a new tensor.
    check(unsafe { curricle_recompute(input.as_ptr(), closure, call::<F>, drop::<F>, &raw mut output) })?;
    // SAFETY: as above; it has no other owner.
    Ok(unsafe { Tensor::from_ptr(output) })
}

unsafe extern "C" fn call<F: Fn(&Tensor) -> Tensor>(
    closure: *mut c_void,
    input: *mut C_tensor,
    failure: *mut *mut c_char,
) -> *mut C_tensor {
    // SAFETY: `recompute` made the pointer from a boxed `F`, and the shim keeps it until it calls `drop`.
    let segment = unsafe { &*closure.cast::<F>() };
    // A panic, which is how tch reports errors, must not cross C++.
    let output = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the shim lends a valid tensor for the call.
        segment(&unsafe { Tensor::clone_from_ptr(input) })
    }));
    match output {
        Ok(output) => {
            let mut output = std::mem::ManuallyDrop::new(output);
            output.as_mut_ptr()
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a part of the network failed");
            let text = CString::new(text.replace('\0', "")).unwrap_or_default();
            // SAFETY: `failure` is a variable of the caller, who frees the copy.
            unsafe { *failure = libc::strdup(text.as_ptr()) };
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn drop<F>(closure: *mut c_void) {
    // SAFETY: `recompute` made the pointer from a boxed `F`, and the shim calls this once.
    std::mem::drop(unsafe { Box::from_raw(closure.cast::<F>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Autocast;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tch::{Device, Kind};

    fn leaf(size: &[i64]) -> Tensor {
        Tensor::randn(size, (Kind::Float, Device::Cpu)).set_requires_grad(true)
    }

    /// Value and gradients of `sum (tanh(x w) w)²`, with and without keeping the activations.
    fn value_and_gradients(kind: Option<Kind>, recomputed: bool) -> (Tensor, Tensor, Tensor) {
        crate::seed(0).unwrap();
        let (x, w) = (leaf(&[5, 4]), leaf(&[4, 4]));
        let y = {
            let _autocast = kind.map(|kind| Autocast::enter(Device::Cpu, kind).unwrap());
            let own = w.shallow_clone();
            let segment = move |x: &Tensor| x.matmul(&own).tanh().matmul(&own);
            if recomputed { recompute(&x, segment).unwrap() } else { segment(&x) }
        };
        let loss = y.to_kind(Kind::Float).square().sum(Kind::Float);
        loss.backward();
        (loss.detach(), x.grad(), w.grad())
    }

    #[test]
    fn values_and_gradients_are_those_of_the_plain_segment() {
        for kind in [None, Some(Kind::BFloat16)] {
            let (plain, again) = (value_and_gradients(kind, false), value_and_gradients(kind, true));
            assert_eq!(plain, again, "{kind:?}");
            assert!(plain.2.abs().max().double_value(&[]) > 1e-3);
        }
        assert_ne!(value_and_gradients(None, true), value_and_gradients(Some(Kind::BFloat16), true));
    }

    #[test]
    fn a_segment_runs_once_forwards_and_once_backwards_and_is_then_dropped() {
        let count = Arc::new(AtomicUsize::new(0));
        let (x, counter) = (leaf(&[2, 2]), Arc::clone(&count));
        let y = recompute(&x, move |x| {
            counter.fetch_add(1, Ordering::SeqCst);
            x * 2.0
        });
        let y = y.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        y.sum(Kind::Float).backward();
        std::mem::drop(y);
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (2, 1));
    }

    #[test]
    fn a_failing_segment_is_an_error() {
        let x = leaf(&[2, 3]);
        let failed = recompute(&x, |x| x.matmul(x)).unwrap_err().to_string();
        assert!(failed.contains("cannot be multiplied"), "{failed}");
        let calls = AtomicUsize::new(0);
        let y = recompute(&x, move |x| if calls.fetch_add(1, Ordering::SeqCst) == 0 { x * 2.0 } else { x.matmul(x) });
        let failed = y.unwrap().sum(Kind::Float).f_backward().unwrap_err().to_string();
        assert!(failed.contains("cannot be multiplied"), "{failed}");
    }
}
