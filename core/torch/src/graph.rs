//! The graph that autograd records.

use tch::Tensor;
use torch_sys::C_tensor;

unsafe extern "C" {
    fn curricle_depends(result: *const C_tensor, input: *const C_tensor) -> bool;
}

/// Whether gradients of `result` flow to `input`. Nothing is computed, and the device is not asked.
pub fn depends(result: &Tensor, input: &Tensor) -> bool {
    let recorded = result.requires_grad() && input.requires_grad();
    // SAFETY: both are valid tensors that require gradients, so they have a place in the graph; it is only read.
    recorded && unsafe { curricle_depends(result.as_ptr(), input.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn dependence_is_seen_through_operations_and_ends_at_detached_values() {
        let leaf = |value: f64| Tensor::full([3], value, (Kind::Float, Device::Cpu)).set_requires_grad(true);
        let (x, y) = (leaf(1.0), leaf(2.0));
        let inner = &x * 2.0;
        let loss = (inner.exp() + &y).sum(Kind::Float);
        assert!(depends(&loss, &inner) && depends(&loss, &x) && depends(&loss, &y));
        let other = (inner.detach() + &y).sum(Kind::Float);
        assert!(!depends(&other, &inner) && !depends(&other, &x) && depends(&other, &y));
        assert!(!depends(&inner.detach(), &inner));
    }
}
