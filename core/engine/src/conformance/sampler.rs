//! Checks of samplers.

use super::{NotPassed, Subject, fail};
use crate::call::call;
use crate::last_words::Running;
use crate::train::check_batches;
use curricle_sdk::{Epoch, Error, Sampler};

/// The sampler under test.
pub(super) fn make(subject: &Subject) -> Result<Box<dyn Sampler>, NotPassed> {
    Ok(call(Running::as_noted(), &[], || subject.component.factory.sampler(&subject.settings))?)
}

/// 240 samples in 24 classes of 1 to 19 samples, unordered.
pub(super) fn labels() -> Vec<i64> {
    let mut labels: Vec<i64> =
        (0..24).flat_map(|class| std::iter::repeat_n(class, 1 + (class as usize * 7) % 19)).collect();
    labels.sort_by_key(|&label| label * 11 % 24);
    labels
}

pub(super) fn batches(sampler: &dyn Sampler, labels: &[i64], seed: u64, epoch: u64) -> Result<Vec<Vec<i64>>, Error> {
    call(Running::as_noted(), &[], || sampler.batches(&Epoch { labels, seed, epoch }))
}

/// Batches are not empty and contain only existing samples.
pub(crate) fn batches_are_usable(subject: &Subject) -> Result<(), NotPassed> {
    let (sampler, labels) = (make(subject)?, labels());
    for epoch in 0..5 {
        let batches = batches(sampler.as_ref(), &labels, 7, epoch)?;
        check_batches(&batches, labels.len()).or_else(|reason| fail(format!("in epoch {epoch} it {reason}")))?;
    }
    Ok(())
}

/// Batches are a pure function of seed and epoch: a resumed run asks again, in another order.
pub(crate) fn same_answer_twice(subject: &Subject) -> Result<(), NotPassed> {
    let (sampler, labels) = (make(subject)?, labels());
    let ask = |sampler: &dyn Sampler, epoch| batches(sampler, &labels, 3, epoch);
    let first: Vec<_> = (0..3).map(|epoch| ask(sampler.as_ref(), epoch)).collect::<Result<_, _>>()?;
    for epoch in [2, 0, 1] {
        for sampler in [&sampler, &make(subject)?] {
            if ask(sampler.as_ref(), epoch as u64)? != first[epoch] {
                return fail(format!("epoch {epoch} has different batches when asked for again"));
            }
        }
    }
    Ok(())
}

/// The labels are not modified, not even through a pointer.
pub(crate) fn labels_are_left_alone(subject: &Subject) -> Result<(), NotPassed> {
    let (sampler, labels) = (make(subject)?, labels());
    let lent = labels.clone();
    batches(sampler.as_ref(), &lent, 7, 0)?;
    // Without `black_box` the compiler could assume that they are equal.
    if std::hint::black_box(lent) != labels { fail("the call modified the labels") } else { Ok(()) }
}

/// No batch is larger than `batch_size`. Batches may be smaller: the last one of an epoch, or all of
/// them to share an epoch evenly.
pub(crate) fn batch_size_is_true(subject: &Subject) -> Result<(), NotPassed> {
    let (sampler, labels) = (make(subject)?, labels());
    let size = sampler.batch_size();
    let largest = batches(sampler.as_ref(), &labels, 0, 0)?.iter().map(Vec::len).max().unwrap_or(0);
    if largest > size {
        return fail(format!("its batch size is {size}, but the largest batch has {largest} samples"));
    }
    Ok(())
}

/// Edge cases give usable batches or an error, not a panic.
pub(crate) fn edge_data_does_not_panic(subject: &Subject) -> Result<(), NotPassed> {
    let sampler = make(subject)?;
    let cases: [(&str, Vec<i64>); 4] = [
        ("a single sample", vec![0]),
        ("a single class", vec![0; 30]),
        ("classes of one", (0..30).collect()),
        ("a class without samples", vec![0, 0, 0, 2, 2, 2]),
    ];
    for (name, labels) in cases {
        match batches(sampler.as_ref(), &labels, 0, 0) {
            Ok(batches) => {
                check_batches(&batches, labels.len()).or_else(|reason| fail(format!("{name}: it {reason}")))?;
            }
            Err(error @ (Error::Panic(_) | Error::Torch(_))) => return fail(format!("{name}: {error}")),
            Err(_) => {}
        }
    }
    Ok(())
}
