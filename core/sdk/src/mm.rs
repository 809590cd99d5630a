//! Products of f32 matrices with the fastest kernel for the CPU.

#![expect(unsafe_code, reason = "calls `mm.cpp`")]

use crate::{Error, Result};
use std::ffi::{CStr, c_char, c_void};
use std::sync::LazyLock;
use tch::{Device, Kind, Tensor};
use torch_sys::C_tensor;

unsafe extern "C" {
    /// Null after `fail` was called with a message.
    fn curricle_sdk_mm(
        bias: *const C_tensor,
        a: *const C_tensor,
        b: *const C_tensor,
        context: *mut c_void,
        fail: extern "C" fn(context: *mut c_void, message: *const c_char),
    ) -> *mut C_tensor;
}

/// The product of two matrices, as [`Tensor::mm`], which it calls wherever that is faster.
///
/// libtorch multiplies with MKL, whose AVX-512 kernels run on Intel's CPUs only. On AMD's it uses AVX2, at less than
/// half the speed of oneDNN, which libtorch uses for convolutions and this function for products. The two round
/// differently. Products that autograd records are always libtorch's.
pub fn mm(a: &Tensor, b: &Tensor) -> Tensor {
    if !(*ONEDNN_IS_FASTER && is_plain(a) && is_plain(b)) {
        return a.mm(b);
    }
    // Callers expect the behaviour of tch: a panic with libtorch's message, which `guard` turns into an error.
    onednn(None, a, b).unwrap_or_else(|error| std::panic::panic_any(error))
}

/// The product of two matrices, plus a bias `[m]` for its m columns; otherwise as [`mm`].
pub fn addmm(bias: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    if !(*ONEDNN_IS_FASTER && is_plain(bias) && is_plain(a) && is_plain(b)) {
        return bias.addmm(a, b);
    }
    onednn(Some(bias), a, b).unwrap_or_else(|error| std::panic::panic_any(error))
}

/// Whether oneDNN takes a tensor, and nothing records what it is used for.
fn is_plain(x: &Tensor) -> bool {
    x.device() == Device::Cpu && x.kind() == Kind::Float && !x.requires_grad() && x.numel() > 0
}

/// Whether MKL does not use the AVX-512 instructions that this CPU has.
static ONEDNN_IS_FASTER: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        let intel = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel";
        !intel && is_x86_feature_detected!("avx512f")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
});

fn onednn(bias: Option<&Tensor>, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    extern "C" fn fail(context: *mut c_void, message: *const c_char) {
        // SAFETY: `context` is the error below, and the message a C string valid for this call.
        let (error, message) = unsafe { (&mut *context.cast::<Option<Error>>(), CStr::from_ptr(message)) };
        *error = Some(Error::torch(&message.to_string_lossy()));
    }
    if a.dim() != 2 || b.dim() != 2 || a.size()[1] != b.size()[0] {
        let (a, b) = (a.size(), b.size());
        return Err(Error::torch(&format!("matrices of shapes {a:?} and {b:?} cannot be multiplied")));
    }
    let bias = bias.map_or(std::ptr::null(), Tensor::as_ptr);
    let mut error: Option<Error> = None;
    // SAFETY: all tensors are borrowed for the call, and `fail` matches its context.
    let product = unsafe { curricle_sdk_mm(bias, a.as_ptr(), b.as_ptr(), (&raw mut error).cast(), fail) };
    if product.is_null() {
        return Err(error.unwrap_or_else(|| Error::torch("no message")));
    }
    // SAFETY: not null, so a new tensor that is ours.
    Ok(unsafe { Tensor::from_ptr(product) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard;

    /// Numbers that look random, without a generator.
    fn random(rows: i64, columns: i64) -> Tensor {
        (Tensor::arange(rows * columns, (Kind::Double, Device::Cpu)).square() * 0.7)
            .sin()
            .to_kind(Kind::Float)
            .view([rows, columns])
    }

    /// The largest difference from the product in f64, relative to the size of its sums.
    fn error(product: &Tensor, a: &Tensor, b: &Tensor) -> f64 {
        let exact = a.to_kind(Kind::Double).mm(&b.to_kind(Kind::Double));
        (product - exact).abs().max().double_value(&[]) / (a.size()[1] as f64).sqrt()
    }

    #[test]
    fn products_of_any_layout_agree_with_libtorch() {
        // The last two exceed what the kernel for small products is used for.
        let sizes =
            [(64, 512, 64), (64, 100, 512), (1, 7, 3), (3, 1, 5), (130, 33, 257), (60, 520, 70), (140, 400, 160)];
        for (n, k, m) in sizes {
            let (a, b) = (random(n, k), random(k, m));
            let (at, bt) = (random(k, n), random(m, k));
            let wide = random(n, k + 5);
            let part = wide.narrow(1, 3, k);
            for (a, b) in [(&a, &b), (&at.tr(), &b), (&a, &bt.tr()), (&at.tr(), &bt.tr()), (&part, &b)] {
                for product in [mm(a, b), onednn(None, a, b).unwrap()] {
                    assert_eq!(product.size(), [n, m]);
                    assert!(product.is_contiguous());
                    assert!(error(&product, a, b) < 1e-5, "{n} x {k} x {m}: {}", error(&product, a, b));
                }
            }
        }
    }

    #[test]
    fn a_bias_is_added_to_every_row() {
        let (a, b, bias) = (random(20, 7), random(7, 33), random(1, 33).view(-1));
        for sum in [addmm(&bias, &a, &b), onednn(Some(&bias), &a, &b).unwrap()] {
            assert!(sum.allclose(&(a.mm(&b) + &bias), 1e-5, 1e-5, false));
        }
    }

    #[test]
    fn equal_products_have_equal_bits() {
        let (a, b) = (random(64, 512), random(512, 100));
        let first = mm(&a, &b);
        assert!((0..20).all(|_| mm(&a, &b) == first));
    }

    #[test]
    fn a_recorded_product_has_a_gradient() {
        let (a, b) = (random(2, 3).set_requires_grad(true), random(3, 2));
        mm(&a, &b).sum(Kind::Float).backward();
        assert_eq!(a.grad(), b.sum_dim_intlist(1, false, None).expand([2, 3], false));
    }

    #[test]
    fn other_kinds_and_empty_matrices_are_multiplied_by_libtorch() {
        let double = random(3, 4).to_kind(Kind::Double);
        assert_eq!(mm(&double, &double.tr()).kind(), Kind::Double);
        assert_eq!(mm(&random(0, 4), &random(4, 2)).size(), [0, 2]);
        assert_eq!(mm(&random(2, 0), &random(0, 3)), Tensor::zeros([2, 3], (Kind::Float, Device::Cpu)));
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let message = guard(|| Ok(mm(&random(2, 3), &random(2, 3)))).unwrap_err().to_string();
        assert!(message.starts_with("libtorch: "), "{message}");
        assert!(guard(|| onednn(None, &random(2, 3), &random(2, 3))).is_err());
    }
}
