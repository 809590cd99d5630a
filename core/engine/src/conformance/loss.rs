//! Checks of losses on an ordinary batch.

use super::batches::{Case, HIDDEN_STATE, make, same};
use super::{NotPassed, Subject, fail};
use curricle_sdk::Loss;
use tch::{Device, Kind};

/// The loss is a finite scalar connected to the embeddings, and its gradients are finite.
pub(crate) fn value_is_as_demanded(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    let case = Case::usual(loss.as_ref(), 0)?;
    run_finite(loss.as_ref(), &case)?;
    run_finite(loss.as_ref(), &case.late(loss.as_ref())?).or_else(|stop| stop.context("in the last step of training"))
}

/// Runs the loss and checks that it and its gradients are finite.
pub(super) fn run_finite(loss: &dyn Loss, case: &Case) -> Result<(), NotPassed> {
    let outcome = case.run(loss)?;
    let value = outcome.loss.double_value(&[]);
    if !value.is_finite() {
        return fail(format!("the loss is {value}"));
    }
    match outcome.gradients.iter().find(|(_, gradient)| gradient.isfinite().all().int64_value(&[]) == 0) {
        Some((name, _)) => fail(format!("the gradient of the {name} is not finite")),
        None => Ok(()),
    }
}

/// The same inputs and the same state of libtorch's generator give bit-identical results.
pub(crate) fn same_result_twice(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    let case = Case::usual(loss.as_ref(), 0)?;
    let first = case.copy().run(loss.as_ref())?;
    same(&first, &case.run(loss.as_ref())?, 0.0)
        .or_else(|reason| fail(format!("called twice, {reason}; {HIDDEN_STATE}")))?;
    // A second instance must not share state with the first.
    same(&first, &case.run(make(subject)?.as_ref())?, 0.0)
        .or_else(|reason| fail(format!("recreated, {reason}; {HIDDEN_STATE}")))
}

/// Inputs are not modified, except for declared tensors that are not trainable.
pub(crate) fn inputs_are_left_alone(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    let mut case = Case::usual(loss.as_ref(), 0)?;
    case.weights = Some(case.embeddings.detach().narrow(1, 0, 1).squeeze().abs());
    let before = case.copy();
    case.run(loss.as_ref())?;
    let mut pairs = vec![("labels".to_string(), &before.labels, &case.labels), ("ids".into(), &before.ids, &case.ids)];
    if let (Some(before), Some(after)) = (&before.weights, &case.weights) {
        pairs.push(("weights".into(), before, after));
    }
    let (old, new) = (before.leaves(), case.leaves());
    pairs.extend(old.iter().zip(&new).map(|((name, a), (_, b))| (name.clone(), a, b)));
    match pairs.iter().find(|(_, before, after)| before != after) {
        Some((name, ..)) => fail(format!("the call modified the {name}")),
        None => Ok(()),
    }
}

/// Single and double precision give about the same result.
pub(crate) fn single_precision_is_near_double(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    if super::batches::is_random(loss.as_ref())? {
        return super::skip("the loss draws random numbers");
    }
    // With a memory: the first gradients of a loss with an empty one may be nothing but rounding errors.
    let double = Case::usual(loss.as_ref(), 0)?.late(loss.as_ref())?;
    let single = double.to(Kind::Float, Device::Cpu).run(loss.as_ref())?;
    let single = super::batches::LossOutcome {
        loss: single.loss.to_kind(Kind::Double),
        gradients: single.gradients.into_iter().map(|(name, g)| (name, g.to_kind(Kind::Double))).collect(),
    };
    same(&double.run(loss.as_ref())?, &single, 1e-3)
        .or_else(|reason| fail(format!("in double and then in single precision, {reason}")))
}
