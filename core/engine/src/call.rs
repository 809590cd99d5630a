//! Calls into components that leave everything as it was.

use crate::last_words::Running;
use curricle_sdk::{Error, Result, guard};
use curricle_torch::Surroundings;
use tch::Tensor;

/// Calls a component with these lent inputs. Panics become errors, and so does a component that changes an input in
/// place or leaves the state of libtorch or of the process changed, which is restored.
pub(crate) fn call<T>(running: Running, lent: &[(&str, &Tensor)], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let surroundings = Surroundings::capture();
    let before = lent.iter().map(|(_, input)| state(input)).collect::<Result<Vec<_>>>()?;
    let result = guard(work);
    let changed = surroundings.restore().map(|what| format!("changed {what} and did not restore it"));
    drop(running);
    match (result, changed.or_else(|| changed_input(lent, &before))) {
        (Ok(value), None) => Ok(value),
        (Ok(_), Some(change)) => Err(Error::other(change)),
        (Err(error @ Error::Setting { .. }), _) | (Err(error), None) => Err(error),
        // The change may be the cause, as that of gradient mode is of a loss without gradient.
        (Err(error), Some(change)) => Err(Error::other(format!("{error}; it also {change}"))),
    }
}

/// Names the first input that is not in the state in which it was lent.
fn changed_input(lent: &[(&str, &Tensor)], before: &[State]) -> Option<String> {
    let mut inputs = lent.iter().zip(before);
    let (name, _) = inputs.find(|((_, input), before)| !state(input).is_ok_and(|now| now == **before))?.0;
    Some(format!("changed its input `{name}` in place; it must change a copy instead"))
}

/// Version, number of elements and need for gradients.
type State = (i64, usize, bool);

/// libtorch counts the in-place changes of every tensor, but not of its shape or its need for gradients.
fn state(tensor: &Tensor) -> Result<State> {
    Ok((tensor.f_internal_version()?, tensor.numel(), tensor.requires_grad()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn ones() -> Tensor {
        Tensor::ones([2], (Kind::Float, Device::Cpu))
    }

    fn try_call<T>(lent: &[(&str, &Tensor)], work: impl FnOnce() -> Result<T>) -> Result<T> {
        call(Running::as_noted(), lent, work)
    }

    #[test]
    fn inputs_changed_in_place_are_named() {
        let x = ones();
        assert_eq!(try_call(&[("x", &x)], || Ok(&x + 1.0)).unwrap(), ones() + 1.0);
        let changes: [&dyn Fn(Tensor) -> Tensor; 3] =
            [&|mut x| x.g_add_scalar_(1.0), &|mut x| x.resize_([3]), &|x| x.set_requires_grad(true)];
        for change in changes {
            let x = ones();
            let message = try_call(&[("x", &x)], || Ok(change(x.shallow_clone()))).unwrap_err().to_string();
            assert!(message.starts_with("changed its input `x` in place"), "{message}");
        }
    }

    #[test]
    fn an_error_does_not_hide_a_mode_left_behind() {
        let message = try_call(&[], || {
            std::mem::forget(tch::no_grad_guard());
            Err::<(), _>(Error::other("returned a scalar without a gradient"))
        });
        let expected = "returned a scalar without a gradient; it also changed gradient mode and did not restore it";
        assert_eq!(message.unwrap_err().to_string(), expected);
    }

    #[test]
    fn an_error_does_not_hide_an_input_changed_in_place() {
        let x = ones();
        let message = try_call(&[("x", &x)], || {
            let _ = x.shallow_clone().g_add_scalar_(1.0);
            Err::<(), _>(Error::other("does not depend on `x`"))
        });
        let expected = "does not depend on `x`; it also changed its input `x` in place; it must change a copy instead";
        assert_eq!(message.unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_mode_left_behind_is_named_and_restored() {
        let message = try_call(&[], || {
            std::mem::forget(tch::no_grad_guard());
            Ok(())
        });
        assert_eq!(message.unwrap_err().to_string(), "changed gradient mode and did not restore it");
        assert!((ones().set_requires_grad(true) * 2.0).requires_grad());
    }
}
