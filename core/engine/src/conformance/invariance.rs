//! Checks that a loss is invariant to changes of the batch that must not matter.

use super::batches::{CLASSES, Case, LossOutcome, is_random, make, same};
use super::{NotPassed, Subject, fail, skip};
use curricle_sdk::Loss;
use tch::Tensor;

const TOLERANCE: f64 = 1e-9;

/// A batch whose weights are all different.
fn weighted(loss: &dyn Loss) -> Result<Case, NotPassed> {
    let mut case = Case::usual(loss, 5)?;
    let size = case.labels.size()[0];
    case.weights = Some((Tensor::arange(size, (tch::Kind::Double, tch::Device::Cpu)) + 1.0) / size as f64);
    Ok(case)
}

/// The order of the rows does not matter.
pub(crate) fn order_of_rows_does_not_matter(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    if is_random(loss.as_ref())? {
        return skip("the loss draws random numbers");
    }
    let case = weighted(loss.as_ref())?;
    let size = case.labels.size()[0];
    // Every row moves.
    let order: Vec<i64> = (0..size).map(|row| (row * 5 + 3) % size).collect();
    let order = Tensor::from_slice(&order);
    let mut other = case.copy();
    let pick = |t: &Tensor| t.detach().index_select(0, &order);
    other.embeddings = pick(&case.embeddings).set_requires_grad(true);
    (other.labels, other.ids) = (pick(&case.labels), pick(&case.ids));
    other.weights = case.weights.as_ref().map(pick);
    let mut expected = case.run(loss.as_ref())?;
    expected.gradients[0].1 = pick(&expected.gradients[0].1);
    same(&expected, &other.run(loss.as_ref())?, TOLERANCE)
        .or_else(|reason| fail(format!("with the rows in another order, {reason}")))
}

/// The numbering of the classes does not matter. Rows and columns of declared tensors that belong to classes are
/// permuted with them.
pub(crate) fn names_of_classes_do_not_matter(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    if is_random(loss.as_ref())? {
        return skip("the loss draws random numbers");
    }
    let case = weighted(loss.as_ref())?;
    // Class c becomes 3c + 1; the inverse gives the old class of each new row.
    let renamed = |label: i64| (3 * label + 1) % CLASSES;
    let mut old_of_new = vec![0i64; CLASSES as usize];
    (0..CLASSES).for_each(|class| old_of_new[renamed(class) as usize] = class);
    let rows = Tensor::from_slice(&old_of_new);

    let mut other = case.copy();
    let labels: Vec<i64> = Vec::<i64>::try_from(&case.labels).unwrap_or_default().into_iter().map(renamed).collect();
    other.labels = Tensor::from_slice(&labels);
    for (name, tensor) in case.tensors.iter() {
        let renumbered = by_class(&tensor.detach(), &rows).set_requires_grad(tensor.requires_grad());
        other.tensors.insert(name, renumbered);
    }
    let mut expected: LossOutcome = case.run(loss.as_ref())?;
    for (_, gradient) in expected.gradients.iter_mut().skip(1) {
        *gradient = by_class(gradient, &rows);
    }
    same(&expected, &other.run(loss.as_ref())?, TOLERANCE)
        .or_else(|reason| fail(format!("with the classes renumbered, {reason}")))
}

/// A tensor with its classes in another order: along each dimension that is the number of classes or, for several
/// centres per class, a multiple of it. A number of classes is in no other size of a test batch.
fn by_class(tensor: &Tensor, order: &Tensor) -> Tensor {
    let sizes = tensor.size().into_iter().enumerate();
    sizes.filter(|(_, size)| *size > 0 && size % CLASSES == 0).fold(tensor.copy(), |tensor, (dimension, size)| {
        let dimension = dimension as i64;
        let classes = tensor.unflatten(dimension, [CLASSES, size / CLASSES]);
        classes.index_select(dimension, order).flatten(dimension, dimension + 1)
    })
}

/// Samples of weight 0 are absent: value and gradients are those of the batch without them.
pub(crate) fn samples_of_weight_zero_are_absent(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    if !loss.takes_weights() {
        return skip("the loss does not take weights");
    }
    if is_random(loss.as_ref())? {
        return skip("the loss draws random numbers");
    }
    if subject.settings["zero_weight"] == "keep" {
        return skip("with `zero_weight = \"keep\"` samples of weight 0 stay in the batch");
    }
    for absent in [&[1i64][..], &[0, 4, 9, 10, 11]] {
        let case = weighted(loss.as_ref())?;
        let present: Vec<i64> = (0..case.labels.size()[0]).filter(|row| !absent.contains(row)).collect();
        let (present, absent) = (Tensor::from_slice(&present), Tensor::from_slice(absent));
        let mut fewer = case.copy();
        let pick = |t: &Tensor| t.detach().index_select(0, &present);
        fewer.embeddings = pick(&case.embeddings).set_requires_grad(true);
        (fewer.labels, fewer.ids) = (pick(&case.labels), pick(&case.ids));
        fewer.weights = case.weights.as_ref().map(pick);
        let mut zeros = case.copy();
        zeros.weights = case.weights.map(|weights| weights.index_fill(0, &absent, 0.0));

        let mut with = zeros.run(loss.as_ref())?;
        let of_absent = with.gradients[0].1.index_select(0, &absent).abs().max().double_value(&[]);
        if of_absent != 0.0 {
            return fail(format!("a sample of weight 0 has a gradient of {of_absent:.1e}"));
        }
        with.gradients[0].1 = pick(&with.gradients[0].1);
        same(&fewer.run(loss.as_ref())?, &with, TOLERANCE)
            .or_else(|reason| fail(format!("without some samples and then with them at weight 0, {reason}")))?;
    }
    Ok(())
}

/// Weights of 1 are the same as no weights.
pub(crate) fn weights_of_one_change_nothing(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    if !loss.takes_weights() {
        return skip("the loss does not take weights");
    }
    for number in 0..3 {
        let case = Case::usual(loss.as_ref(), number)?;
        let mut ones = case.copy();
        ones.weights = Some(case.embeddings.detach().narrow(1, 0, 1).squeeze().ones_like());
        same(&case.run(loss.as_ref())?, &ones.run(loss.as_ref())?, 1e-12)
            .or_else(|reason| fail(format!("without weights and then with weights of 1, {reason}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn classes_are_reordered_in_rows_columns_and_blocks() {
        let order = Tensor::arange(CLASSES, (Kind::Int64, Device::Cpu)).flip([0]);
        let rows = Tensor::arange(CLASSES * 3, (Kind::Float, Device::Cpu)).view([CLASSES, 3]);
        assert_eq!(by_class(&rows, &order), rows.flip([0]));
        assert_eq!(by_class(&rows.tr(), &order), rows.flip([0]).tr());
        // Three centres of each class follow one another.
        let blocks = Tensor::arange(CLASSES * 3, (Kind::Float, Device::Cpu));
        assert_eq!(by_class(&blocks, &order), rows.flip([0]).flatten(0, 1));
        let other = Tensor::arange(8, (Kind::Float, Device::Cpu));
        assert_eq!(by_class(&other, &order), other);
    }
}
