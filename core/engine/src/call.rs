//! Calls into components that leave everything as it was.

use curricle_sdk::{Error, Result, guard};
use curricle_torch::Surroundings;
use tch::Tensor;

/// Calls a component with these lent inputs. Panics become errors, and so does a component that changes an input in
/// place or leaves the state of libtorch or of the process changed, which is restored.
pub(crate) fn call<T>(lent: &[(&str, &Tensor)], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let surroundings = Surroundings::capture();
    let versions = lent.iter().map(|(_, input)| version(input)).collect::<Result<Vec<_>>>()?;
    let result = guard(work);
    let changed = surroundings.restore();
    let value = result?;
    if let Some(what) = changed {
        return Err(Error::other(format!("changed {what} and did not restore it")));
    }
    for ((name, input), before) in lent.iter().zip(versions) {
        if version(input)? != before {
            return Err(Error::other(format!("changed its input `{name}` in place; it must change a copy instead")));
        }
    }
    Ok(value)
}

/// libtorch counts the in-place changes of every tensor.
fn version(tensor: &Tensor) -> Result<i64> {
    Ok(tensor.f_internal_version()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn ones() -> Tensor {
        Tensor::ones([2], (Kind::Float, Device::Cpu))
    }

    #[test]
    fn inputs_changed_in_place_are_named() {
        let x = ones();
        assert_eq!(call(&[("x", &x)], || Ok(&x + 1.0)).unwrap(), ones() + 1.0);
        let message = call(&[("x", &x)], || Ok(x.shallow_clone().f_add_scalar_(1.0)?)).unwrap_err().to_string();
        assert!(message.starts_with("changed its input `x` in place"), "{message}");
    }

    #[test]
    fn a_mode_left_behind_is_named_and_restored() {
        let message = call(&[], || {
            std::mem::forget(tch::no_grad_guard());
            Ok(())
        });
        assert_eq!(message.unwrap_err().to_string(), "changed gradient mode and did not restore it");
        assert!((ones().set_requires_grad(true) * 2.0).requires_grad());
    }
}
