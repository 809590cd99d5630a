//! Declarations of tensors and advice, as losses and weight schemes give them.

use super::call::{Collected, call, collect, push};
use crate::abi::Status;
use crate::abi::records::{
    AdviceSink, ErrorSink, INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM, Str, TensorSink, TensorSpec, kind_of, read, slice,
};
use crate::{Advice, Error, Init, Result};
use std::ffi::c_void;

/// libtorch's own limit for most operations.
const MOST_DIMENSIONS: usize = 64;

/// The tensors that `fill` declares.
pub(super) fn collect_specs(
    fill: impl Fn(*const TensorSink, *const ErrorSink) -> Status + Copy,
) -> Result<Vec<crate::TensorSpec>> {
    extern "C" fn take(context: *mut c_void, spec: *const TensorSpec) {
        // SAFETY: `context` is the list below; the library lends a valid record.
        unsafe { collect(context, |specs: &mut Vec<_>| push(specs, declared(spec)?, "declared tensors")) };
    }
    let mut specs = Collected::new(Vec::new());
    let sink = TensorSink { size: size_of::<TensorSink>(), context: specs.context(), declare: Some(take) };
    let sink = &raw const sink;
    let called = call(move |error| fill(sink, error));
    specs.finish(called)
}

/// # Safety
/// `spec` must be null or a record whose text and shape are valid.
unsafe fn declared(spec: *const TensorSpec) -> Result<crate::TensorSpec> {
    // SAFETY: the caller's obligation.
    let spec = unsafe { read(spec) }?;
    // SAFETY: as above.
    let name = unsafe { spec.name.read("the name of a declared tensor") }?;
    // SAFETY: as above.
    let shape =
        unsafe { slice(spec.shape, spec.dimensions, MOST_DIMENSIONS, &format!("the shape of tensor `{name}`")) }?;
    let unknown =
        |what: &str, code: u32| Error::other(format!("declared tensor `{name}` with the unknown {what} {code}"));
    Ok(crate::TensorSpec {
        shape: shape.to_vec(),
        kind: kind_of(spec.kind).ok_or_else(|| unknown("type", spec.kind))?,
        init: match spec.init {
            INIT_CONSTANT => Init::Constant(spec.init_a),
            INIT_NORMAL => Init::Normal { std: spec.init_a },
            INIT_UNIFORM => Init::Uniform { low: spec.init_a, high: spec.init_b },
            other => return Err(unknown("initialisation", other)),
        },
        trainable: spec.trainable != 0,
        // SAFETY: as above.
        group: unsafe { spec.group.read("the group of a declared tensor") }?.into(),
        lr_scale: spec.lr_scale,
        name: name.into(),
    })
}

/// The advice that `fill` gives. A component that fails to check its settings gets a warning, rather than passing as
/// correct.
pub(super) fn collect_advice(fill: impl Fn(*const AdviceSink, *const ErrorSink) -> Status + Copy) -> Vec<Advice> {
    extern "C" fn take(context: *mut c_void, path: Str, message: Str) {
        // SAFETY: `context` is the list below; the library lends valid bytes.
        unsafe {
            collect(context, |advice: &mut Vec<Advice>| {
                push(advice, Advice { path: path.read_lossy(), message: message.read_lossy() }, "warnings")
            });
        }
    }
    let mut advice = Collected::new(Vec::new());
    let sink = AdviceSink { size: size_of::<AdviceSink>(), context: advice.context(), advise: Some(take) };
    let sink = &raw const sink;
    let called = call(move |error| fill(sink, error));
    let advice = advice.finish(called);
    advice.unwrap_or_else(|error| vec![Advice::new("", format!("could not check its settings: {error}"))])
}

/// The declared tensors. Callers use `guard`, which returns the error.
pub(super) fn or_panic(specs: Result<Vec<crate::TensorSpec>>) -> Vec<crate::TensorSpec> {
    specs.unwrap_or_else(|error| std::panic::panic_any(error))
}
