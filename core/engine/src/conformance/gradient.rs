//! Checks gradients against finite differences.

use super::batches::{Case, LossOutcome, make};
use super::{NotPassed, Subject, fail, skip};
use curricle_sdk::Loss;
use tch::{Kind, Tensor};

/// Step sizes to try; a kink of the loss is rarely near for all of them.
const STEPS: [f64; 3] = [1e-6, 1e-5, 1e-7];
/// Relative difference that counts as rounding.
const TOLERANCE: f64 = 1e-4;

/// Compares the slope along random directions, in double precision, for the embeddings and every
/// trainable tensor.
pub(crate) fn agrees_with_finite_differences(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    if !loss.gradient_is_exact() {
        return skip("the loss treats a part of its formula as a constant");
    }
    for number in 0..3 {
        let mut case = Case::usual(loss.as_ref(), number)?.with_fixed_teacher();
        if number == 2 {
            case = case.late(loss.as_ref())?;
        }
        let outcome = case.run(loss.as_ref())?;
        for index in 0..outcome.gradients.len() {
            for direction in 0..3 {
                compare(loss.as_ref(), &case, &outcome, index, 100 * number as i64 + direction)?;
            }
        }
    }
    Ok(())
}

fn compare(loss: &dyn Loss, case: &Case, outcome: &LossOutcome, index: usize, seed: i64) -> Result<(), NotPassed> {
    let (name, gradient) = &outcome.gradients[index];
    curricle_torch::seed(seed).map_err(curricle_sdk::Error::from)?;
    let direction = gradient.randn_like();
    let direction = &direction / direction.norm();
    let computed = (gradient * &direction).sum(None).double_value(&[]);
    // Along most directions the slope is a small fraction of a large gradient and lost in rounding.
    let scale = gradient.norm().double_value(&[]).max(1e-6);
    let mut measured = f64::NAN;
    for step in STEPS {
        let ahead = moved(loss, case, index, &direction, step)?;
        let behind = moved(loss, case, index, &direction, -step)?;
        measured = (ahead - behind) / (2.0 * step);
        if (measured - computed).abs() <= TOLERANCE * scale.max(measured.abs()) {
            return Ok(());
        }
    }
    fail(format!(
        "along a random direction of the {name} the slope is {measured:.6}, but the gradient gives {computed:.6}; \
         if part of the formula is detached on purpose, skip this check with `--except gradient`"
    ))
}

fn moved(loss: &dyn Loss, case: &Case, index: usize, direction: &Tensor, step: f64) -> Result<f64, NotPassed> {
    let case = case.copy();
    let (_, leaf) = &case.leaves()[index];
    let _ = tch::no_grad(|| leaf.shallow_clone().g_add_(&(direction * step).to_kind(leaf.kind())));
    Ok(case.value(loss)?.to_kind(Kind::Double).double_value(&[]))
}
