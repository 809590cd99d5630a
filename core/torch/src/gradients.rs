//! A scalar whose derivatives are known already.

use crate::Result;
use crate::ffi::{self, check, pointers};
use std::ptr::null_mut;
use tch::Tensor;

/// A scalar with the given value and first derivatives by `tensors`.
///
/// For functions whose derivative is cheap in closed form: the graph gets one step, and the backward
/// pass is one multiplication for each tensor that wants a gradient. Each gradient has its tensor's
/// shape; its kind may differ. Second derivatives are not available.
pub fn with_gradients(value: &Tensor, tensors: &[&Tensor], gradients: &[&Tensor]) -> Result<Tensor> {
    assert_eq!(tensors.len(), gradients.len(), "every tensor has one gradient");
    let (tensors, gradients) = (pointers(tensors), pointers(gradients));
    let mut scalar = null_mut();
    // SAFETY: both lists hold live tensors and are equally long; on success the result is ours.
    unsafe {
        let (value, count) = (value.as_ptr(), tensors.len());
        check(ffi::curricle_with_gradients(value, tensors.as_ptr(), gradients.as_ptr(), count, &raw mut scalar))?;
        Ok(Tensor::from_ptr(scalar))
    }
}

#[cfg(test)]
mod tests {
    use super::with_gradients;
    use tch::{Device, Kind, Tensor};

    fn leaf(values: &[f64], kind: Kind) -> Tensor {
        Tensor::from_slice(values).to_kind(kind).set_requires_grad(true)
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::<f64>::try_from(tensor.to_kind(Kind::Double)).expect("a vector")
    }

    #[test]
    fn what_comes_from_above_multiplies() {
        let (a, b) = (leaf(&[1.0, 2.0], Kind::Double), leaf(&[3.0], Kind::Double));
        let (by_a, by_b) = (Tensor::from_slice(&[0.5, -1.0]), Tensor::from_slice(&[4.0]));
        let value = Tensor::from(7.0f64);
        let scalar = with_gradients(&value, &[&a, &b], &[&by_a, &by_b]).expect("shapes agree");
        assert_eq!(scalar.double_value(&[]), 7.0);
        (scalar * 3.0).backward();
        assert_eq!(numbers(&a.grad()), [1.5, -3.0]);
        assert_eq!(numbers(&b.grad()), [12.0]);
    }

    #[test]
    fn the_graph_goes_on_below() {
        let a = leaf(&[1.0, 2.0], Kind::Double);
        let below = &a * &a;
        let scalar = with_gradients(&Tensor::from(0.0f64), &[&below], &[&Tensor::from_slice(&[1.0, 10.0])]);
        scalar.expect("shapes agree").backward();
        assert_eq!(numbers(&a.grad()), [2.0, 40.0]);
    }

    #[test]
    fn a_gradient_takes_the_kind_of_its_tensor() {
        let half = leaf(&[1.0, 2.0], Kind::BFloat16);
        let scalar = with_gradients(&Tensor::from(1.0f32), &[&half], &[&Tensor::from_slice(&[0.5f32, 2.0])]);
        scalar.expect("shapes agree").backward();
        assert_eq!(half.grad().kind(), Kind::BFloat16);
        assert_eq!(numbers(&half.grad()), [0.5, 2.0]);
    }

    #[test]
    fn only_what_wants_a_gradient_has_one() {
        let (a, constant) = (leaf(&[1.0], Kind::Double), Tensor::from_slice(&[2.0]));
        let by = Tensor::from_slice(&[1.0]);
        let scalar = with_gradients(&Tensor::from(1.0f64), &[&constant, &a], &[&by, &by]).expect("shapes agree");
        scalar.backward();
        assert!(!constant.grad().defined());
        assert_eq!(numbers(&a.grad()), [1.0]);
        let free = with_gradients(&Tensor::from(1.0f64), &[&constant], &[&by]).expect("shapes agree");
        assert!(!free.requires_grad());
        let quiet = tch::no_grad(|| with_gradients(&Tensor::from(1.0f64), &[&a], &[&by])).expect("shapes agree");
        assert!(!quiet.requires_grad());
    }

    #[test]
    fn misuse_is_an_error() {
        let a = leaf(&[1.0, 2.0], Kind::Double);
        let by = Tensor::from_slice(&[1.0]);
        let message = with_gradients(&Tensor::from(1.0f64), &[&a], &[&by]).expect_err("shapes differ").to_string();
        assert!(message.contains("shaped [1], its tensor [2]"), "{message}");
        let vector = Tensor::zeros([3], (Kind::Double, Device::Cpu));
        with_gradients(&vector, &[&by], &[&by]).expect_err("not a scalar");
        let scalar = with_gradients(&Tensor::from(1.0f64), &[&a], &[&a]).expect("shapes agree");
        scalar.backward();
        let again = scalar.f_backward().expect_err("the graph is gone").to_string();
        assert!(again.contains("second time"), "{again}");
    }
}
