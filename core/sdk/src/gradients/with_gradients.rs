//! A differentiable scalar from a value and its gradients.

#![expect(unsafe_code, reason = "calls `with_gradients.cpp`")]

use crate::{Error, Result};
use std::ffi::{CStr, c_char, c_void};
use tch::Tensor;
use torch_sys::C_tensor;

unsafe extern "C" {
    /// Null after `fail` was called with a message.
    fn curricle_sdk_with_gradients(
        value: *const C_tensor,
        tensors: *const *const C_tensor,
        tensor_count: usize,
        gradients: *const *const C_tensor,
        gradient_count: usize,
        context: *mut c_void,
        fail: extern "C" fn(context: *mut c_void, message: *const c_char),
    ) -> *mut C_tensor;
}

/// A scalar with this value and these gradients with respect to `tensors`.
///
/// For functions whose gradient has a closed form: the graph gets one node, and the backward pass is at most one
/// multiplication per tensor that requires a gradient. There is one gradient per tensor, of the tensor's shape; its
/// kind may differ. Compute value and gradients from detached tensors, or the operations are recorded for nothing.
/// Second derivatives are not available.
///
/// # Errors
/// If the value is not a floating-point scalar or the gradients do not fit the tensors.
pub fn with_gradients(value: &Tensor, tensors: &[&Tensor], gradients: &[&Tensor]) -> Result<Tensor> {
    extern "C" fn fail(context: *mut c_void, message: *const c_char) {
        // SAFETY: `context` is the error below, and the message a C string valid for this call.
        let (error, message) = unsafe { (&mut *context.cast::<Option<Error>>(), CStr::from_ptr(message)) };
        *error = Some(Error::torch(&message.to_string_lossy()));
    }
    let pointers = |list: &[&Tensor]| list.iter().map(|tensor| tensor.as_ptr()).collect::<Vec<_>>();
    let (tensors, gradients) = (pointers(tensors), pointers(gradients));
    let mut error: Option<Error> = None;
    // SAFETY: both lists hold live tensors and have the stated lengths; `fail` matches its context.
    let scalar = unsafe {
        curricle_sdk_with_gradients(
            value.as_ptr(),
            tensors.as_ptr(),
            tensors.len(),
            gradients.as_ptr(),
            gradients.len(),
            (&raw mut error).cast(),
            fail,
        )
    };
    if scalar.is_null() {
        return Err(error.unwrap_or_else(|| Error::torch("no message")));
    }
    // SAFETY: not null, so a new tensor that is ours.
    Ok(unsafe { Tensor::from_ptr(scalar) })
}

#[cfg(test)]
mod tests {
    use super::with_gradients;
    use tch::{Device, Kind, Tensor};

    fn leaf(values: &[f64], kind: Kind) -> Tensor {
        Tensor::from_slice(values).to_kind(kind).set_requires_grad(true)
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::<f64>::try_from(tensor.to_kind(Kind::Double)).unwrap()
    }

    #[test]
    fn the_upstream_gradient_multiplies() {
        let (a, b) = (leaf(&[1.0, 2.0], Kind::Double), leaf(&[3.0], Kind::Double));
        let (by_a, by_b) = (Tensor::from_slice(&[0.5, -1.0]), Tensor::from_slice(&[4.0]));
        let scalar = with_gradients(&Tensor::from(7.0f64), &[&a, &b], &[&by_a, &by_b]).unwrap();
        assert_eq!(scalar.double_value(&[]), 7.0);
        (scalar * 3.0).backward();
        assert_eq!(numbers(&a.grad()), [1.5, -3.0]);
        assert_eq!(numbers(&b.grad()), [12.0]);
    }

    #[test]
    fn gradients_flow_on_through_the_tensors() {
        let a = leaf(&[1.0, 2.0], Kind::Double);
        let squares = &a * &a;
        let by_squares = Tensor::from_slice(&[1.0, 10.0]);
        with_gradients(&Tensor::from(0.0f64), &[&squares], &[&by_squares]).unwrap().backward();
        assert_eq!(numbers(&a.grad()), [2.0, 40.0]);
    }

    #[test]
    fn a_gradient_that_is_kept_is_not_shared_with_its_tensor() {
        let a = leaf(&[1.0, 2.0], Kind::Double);
        let kept = Tensor::from_slice(&[0.5, -1.0]);
        with_gradients(&Tensor::from(7.0f64), &[&a], &[&kept]).unwrap().backward();
        let _ = a.grad().fill_(9.0);
        assert_eq!(numbers(&kept), [0.5, -1.0]);
        // Nor by two tensors.
        let b = leaf(&[1.0, 2.0], Kind::Double);
        let twice = [kept.copy()];
        let scalar = with_gradients(&Tensor::from(7.0f64), &[&a, &b], &[&twice[0], &twice[0]]).unwrap();
        drop(twice);
        let _ = a.grad().zero_();
        scalar.backward();
        let _ = a.grad().fill_(9.0);
        assert_eq!(numbers(&b.grad()), [0.5, -1.0]);
    }

    #[test]
    fn a_graph_that_is_kept_can_be_passed_again() {
        let a = leaf(&[1.0, 2.0], Kind::Double);
        let scalar = with_gradients(&Tensor::from(7.0f64), &[&a], &[&Tensor::from_slice(&[0.5, -1.0])]).unwrap();
        for _ in 0..3 {
            let pass = Tensor::run_backward(&[&scalar], &[&a], true, false).remove(0);
            assert_eq!(numbers(&pass), [0.5, -1.0]);
            let _ = pass.shallow_clone().fill_(9.0);
        }
        scalar.backward();
        assert_eq!(numbers(&a.grad()), [0.5, -1.0]);
    }

    #[test]
    fn a_gradient_is_cast_to_the_kind_of_its_tensor() {
        let half = leaf(&[1.0, 2.0], Kind::BFloat16);
        let by_half = Tensor::from_slice(&[0.5f32, 2.0]);
        with_gradients(&Tensor::from(1.0f32), &[&half], &[&by_half]).unwrap().backward();
        assert_eq!(half.grad().kind(), Kind::BFloat16);
        assert_eq!(numbers(&half.grad()), [0.5, 2.0]);
    }

    #[test]
    fn only_tensors_that_require_a_gradient_get_one() {
        let (a, constant) = (leaf(&[1.0], Kind::Double), Tensor::from_slice(&[2.0]));
        let (value, by) = (Tensor::from(1.0f64), Tensor::from_slice(&[1.0]));
        with_gradients(&value, &[&constant, &a], &[&by, &by]).unwrap().backward();
        assert!(!constant.grad().defined());
        assert_eq!(numbers(&a.grad()), [1.0]);
        assert!(!with_gradients(&value, &[&constant], &[&by]).unwrap().requires_grad());
        let without_grad = tch::no_grad(|| with_gradients(&value, &[&a], &[&by])).unwrap();
        assert!(!without_grad.requires_grad());
    }

    #[test]
    fn arguments_that_do_not_fit_are_errors() {
        let (a, short) = (leaf(&[1.0, 2.0], Kind::Double), Tensor::from_slice(&[1.0]));
        let value = Tensor::from(1.0f64);
        let message = |result: crate::Result<Tensor>| result.unwrap_err().to_string();
        assert_eq!(
            message(with_gradients(&value, &[&a], &[&short])),
            "libtorch: gradient 0 has shape [1], but its tensor has shape [2]"
        );
        assert_eq!(
            message(with_gradients(&value, &[&a], &[])),
            "libtorch: expected one gradient per tensor, got 0 for 1"
        );
        let vector = Tensor::zeros([3], (Kind::Double, Device::Cpu));
        assert_eq!(
            message(with_gradients(&vector, &[&a], &[&a])),
            "libtorch: the value must be a scalar, but has shape [3]"
        );
        assert!(message(with_gradients(&Tensor::from(1i64), &[&a], &[&a])).contains("must be a floating-point number"));
        assert!(with_gradients(&value, &[&Tensor::new()], &[&a]).is_err(), "an undefined tensor");
    }

    #[test]
    fn a_second_backward_pass_is_an_error() {
        let a = leaf(&[1.0, 2.0], Kind::Double);
        let scalar = with_gradients(&Tensor::from(1.0f64), &[&a], &[&a]).unwrap();
        scalar.backward();
        let again = scalar.f_backward().unwrap_err().to_string();
        assert!(again.contains("second time"), "{again}");
    }
}
