//! Turns panics into errors.
//!
//! tch's readable forms (`a + b`, `x.matmul(&y)`) panic when libtorch rejects an operation: out of memory, shapes
//! that do not match. To let formulas use those forms, every call into a component and every training step goes
//! through [`guard`].

use crate::{Error, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` and returns its panic, if any, as an [`Error`] without printing it. A function that cannot return an
/// error may panic with one: `std::panic::panic_any(error)`.
pub fn guard<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    keep_guarded_panics_quiet();
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    result.unwrap_or_else(|payload| Err(payload.downcast::<Error>().map_or_else(|p| from_panic(&*p), |error| *error)))
}

/// The standard hook prints every panic, caught or not. This one skips those that `guard` turns into errors.
fn keep_guarded_panics_quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let standard = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                standard(info);
            }
        }));
    });
}

fn from_panic(payload: &(dyn std::any::Any + Send)) -> Error {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    // tch panics with the debug form of its error: `called … on an `Err` value: Torch("…")`.
    match text.split_once("Torch(\"") {
        Some((_, message)) => Error::torch(&message.replace("\\n", "\n")),
        None => Error::Panic(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind, Tensor};

    #[test]
    fn a_torch_panic_becomes_an_error_with_the_first_line_only() {
        let result = guard(|| {
            let a = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
            Ok(a.matmul(&a))
        });
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with("libtorch: mat1 and mat2 shapes cannot be multiplied"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[test]
    fn both_kinds_of_panic_payload_are_read() {
        assert_eq!(guard::<()>(|| panic!("plain")).unwrap_err().to_string(), "panicked: plain");
        let n = 3;
        assert_eq!(guard::<()>(|| panic!("number {n}")).unwrap_err().to_string(), "panicked: number 3");
    }

    #[test]
    fn a_panic_with_an_error_is_that_error() {
        let result = guard::<()>(|| std::panic::panic_any(Error::setting("margin", "is odd")));
        assert_eq!(result.unwrap_err().to_string(), "setting `margin`: is odd");
    }

    #[test]
    fn a_value_passes_through() {
        assert_eq!(guard(|| Ok(7)).unwrap(), 7);
    }
}
