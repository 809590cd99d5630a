//! Checks of the tensors that components declare, before they are created.

use crate::device::memory;
use curricle_sdk::{Error, Init, Result, TensorSpec};
use tch::Kind;

/// Types a declared tensor may have.
const KINDS: [Kind; 6] = [Kind::Float, Kind::Double, Kind::Int64, Kind::Int, Kind::Uint8, Kind::Bool];

/// Checks declarations: unique names, and shapes, types, initial values and learning rates that can be created.
pub(crate) fn check_specs(specs: &[TensorSpec]) -> Result<()> {
    for (index, spec) in specs.iter().enumerate() {
        let before = &specs[..index];
        if before.iter().any(|other| other.name == spec.name) {
            return Err(Error::other(format!("declared tensor `{}` twice; names must be different", spec.name)));
        }
        check_spec(spec).map_err(|what| wrong(spec, &what))?;
        let same_group = |other: &&TensorSpec| spec.trainable && other.trainable && other.group == spec.group;
        if let Some(other) = before.iter().find(same_group).filter(|other| other.lr_scale != spec.lr_scale) {
            let what = format!(
                "a learning-rate scale of {}, but `{}` of the same group `{}` with {}; give them groups of their own",
                spec.lr_scale, other.name, spec.group, other.lr_scale
            );
            return Err(wrong(spec, &what));
        }
    }
    Ok(())
}

/// Checks the declarations of a weight scheme, which has no gradients to train with.
pub(crate) fn check_state(specs: &[TensorSpec]) -> Result<()> {
    check_specs(specs)?;
    match specs.iter().find(|spec| spec.trainable) {
        Some(spec) => Err(wrong(spec, "a gradient, but nothing trains the tensors of a weight scheme; declare state")),
        None => Ok(()),
    }
}

/// Checks that declared tensors fit in the memory that is free.
pub(crate) fn check_memory(specs: &[TensorSpec]) -> Result<()> {
    let mut bytes = 0u64;
    for (index, spec) in specs.iter().enumerate() {
        bytes = bytes.saturating_add(size(spec).unwrap_or(u64::MAX));
        if let Some(available) = memory::available().filter(|&available| bytes > available) {
            let with_others = if index > 0 { " together with those before it" } else { "" };
            let what = format!(
                "the shape {:?}, which needs {} GB{with_others}; only {} GB of memory are free; declare smaller \
                 tensors",
                spec.shape,
                gigabytes(bytes),
                gigabytes(available)
            );
            return Err(wrong(spec, &what));
        }
    }
    Ok(())
}

fn wrong(spec: &TensorSpec, what: &str) -> Error {
    Error::other(format!("declared tensor `{}` with {what}", spec.name.escape_debug()))
}

fn check_spec(spec: &TensorSpec) -> Result<(), String> {
    let TensorSpec { kind, init, trainable, lr_scale, .. } = spec;
    if spec.name.is_empty() {
        return Err("an empty name".into());
    }
    if spec.name.contains(char::is_control) || spec.group.contains(char::is_control) {
        return Err("a line break or another control character in its name or group".into());
    }
    if *trainable && spec.group.is_empty() {
        return Err("an empty parameter group, which recipes could not name".into());
    }
    if !KINDS.contains(kind) {
        return Err(format!("the type {kind:?}, which declared tensors cannot have"));
    }
    if *trainable && *kind != Kind::Float {
        return Err(format!("the type {kind:?}; trainable tensors are Float"));
    }
    if !is_valid(*init, *kind) {
        return Err(format!("the initial value {init:?}, which is not valid for the type {kind:?}"));
    }
    if !(lr_scale.is_finite() && *lr_scale >= 0.0) {
        return Err(format!("a learning-rate scale of {lr_scale}; it must be 0 or more"));
    }
    if size(spec).is_none() {
        return Err(format!(
            "the invalid shape {:?}; sizes must be 0 or more and their product must not overflow",
            spec.shape
        ));
    }
    Ok(())
}

fn is_valid(init: Init, kind: Kind) -> bool {
    let is_float = matches!(kind, Kind::Float | Kind::Double);
    let fits_f32 = |value: f64| (value as f32).is_finite();
    let whole = |low: f64, high: f64, value: f64| value.fract() == 0.0 && (low..=high).contains(&value);
    match (init, kind) {
        (Init::Constant(value), Kind::Float) => fits_f32(value),
        (Init::Constant(value), Kind::Double) => value.is_finite(),
        (Init::Constant(value), Kind::Int) => whole(i32::MIN.into(), i32::MAX.into(), value),
        (Init::Constant(value), Kind::Uint8) => whole(0.0, 255.0, value),
        (Init::Constant(value), Kind::Bool) => whole(0.0, 1.0, value),
        (Init::Constant(value), _) => whole(-1e15, 1e15, value),
        // Random values are drawn in f32.
        (Init::Normal { std }, _) => is_float && fits_f32(std) && std >= 0.0,
        (Init::Uniform { low, high }, _) => is_float && fits_f32(low) && fits_f32(high) && low <= high,
    }
}

/// Bytes of a tensor. `None` if a dimension is negative, or if they, or the strides of an empty one, would overflow.
fn size(spec: &TensorSpec) -> Option<u64> {
    let mut dimensions = spec.shape.iter().map(|&size| u64::try_from(size).ok());
    let strides = dimensions.clone().try_fold(1u64, |product, size| product.checked_mul(size?.max(1)));
    i64::try_from(strides?).ok()?;
    dimensions.try_fold(spec.kind.elt_size_in_bytes() as u64, |product, size| product.checked_mul(size?))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(checked: Result<()>) -> String {
        checked.expect_err("the declaration is wrong").to_string()
    }

    #[test]
    fn impossible_declarations_are_refused_by_name() {
        let float = |init| TensorSpec::state("x", [2], init);
        let trainable = || TensorSpec::trainable("x", [2], Init::Constant(0.0));
        let of_shape = |shape: &[i64]| TensorSpec::state("x", shape, Init::Constant(0.0));
        let refused = [
            (float(Init::Constant(f64::NAN)), "the initial value"),
            (float(Init::Constant(1e300)), "not valid for the type Float"),
            (float(Init::Normal { std: -1.0 }), "the initial value"),
            (float(Init::Uniform { low: 1.0, high: 0.0 }), "the initial value"),
            (float(Init::Constant(0.5)).kind(Kind::Int64), "not valid for the type Int64"),
            (float(Init::Normal { std: 1.0 }).kind(Kind::Int64), "not valid for the type Int64"),
            (float(Init::Constant(300.0)).kind(Kind::Uint8), "not valid for the type Uint8"),
            (float(Init::Constant(2.0)).kind(Kind::Bool), "not valid for the type Bool"),
            (float(Init::Constant(3e9)).kind(Kind::Int), "not valid for the type Int"),
            (float(Init::Constant(0.0)).kind(Kind::ComplexFloat), "declared tensors cannot have"),
            (trainable().kind(Kind::Double), "trainable tensors are Float"),
            (trainable().lr_scale(f64::NAN), "0 or more"),
            (trainable().lr_scale(-1.0), "0 or more"),
            (TensorSpec { trainable: true, ..float(Init::Constant(0.0)) }, "an empty parameter group"),
            (TensorSpec { group: "a\nb".into(), ..trainable() }, "control character in its name or group"),
            (of_shape(&[-1]), "invalid shape"),
            (of_shape(&[i64::MAX, i64::MAX]), "invalid shape"),
            (of_shape(&[0, i64::MAX, i64::MAX]), "invalid shape"),
        ];
        for (spec, reason) in refused {
            let message = message(check_specs(&[spec]));
            assert!(message.starts_with("declared tensor `x` with") && message.contains(reason), "{message}");
        }
        let twice = [float(Init::Constant(0.0)), float(Init::Constant(0.0))];
        assert_eq!(message(check_specs(&twice)), "declared tensor `x` twice; names must be different");
        assert!(check_specs(&[of_shape(&[]), TensorSpec { name: "y".into(), ..of_shape(&[0, 5]) }]).is_ok());
    }

    #[test]
    fn a_group_has_one_learning_rate() {
        let in_group = |name, lr_scale| {
            let spec = TensorSpec::trainable(name, [2], Init::Constant(0.0)).lr_scale(lr_scale);
            TensorSpec { group: "g".into(), ..spec }
        };
        assert!(check_specs(&[in_group("a", 3.0), in_group("b", 3.0)]).is_ok());
        let message = message(check_specs(&[in_group("a", 3.0), in_group("b", 2.0)]));
        assert!(message.contains("tensor `b` with a learning-rate scale of 2, but `a` of the same group"), "{message}");
    }

    #[test]
    fn a_weight_scheme_trains_nothing() {
        assert!(check_state(&[TensorSpec::state("means", [2], Init::Constant(0.0))]).is_ok());
        let message = message(check_state(&[TensorSpec::trainable("t", [2], Init::Constant(0.0))]));
        assert!(message.starts_with("declared tensor `t` with a gradient, but nothing trains"), "{message}");
    }

    #[test]
    fn tensors_that_do_not_fit_in_memory_are_refused_before_they_are_created() {
        let of = |name: &'static str, size| TensorSpec::state(name, [size], Init::Constant(0.0));
        assert!(check_memory(&[of("small", 10)]).is_ok());
        let message = message(check_memory(&[of("small", 10), of("x", 1 << 50)]));
        assert!(message.contains("`x`") && message.contains("together with those before it"), "{message}");
    }
}
