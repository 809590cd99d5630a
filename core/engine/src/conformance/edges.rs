//! Checks losses on edge-case batches.

use super::batches::{Case, DIMENSIONS, make, unit};
use super::loss::run_finite;
use super::{NotPassed, Subject};
use curricle_sdk::Loss;
use tch::{Device, Kind, Tensor};

/// The loss and its gradients are finite on every edge case, in both precisions.
pub(crate) fn edge_batches_give_finite_numbers(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    for (name, case) in cases(loss.as_ref())? {
        let (first, last) = (case.copy(), case.late(loss.as_ref())?);
        for (case, when) in [(first, ""), (last, ", in the last step of training")] {
            for kind in [Kind::Double, Kind::Float] {
                run_finite(loss.as_ref(), &case.to(kind, Device::Cpu))
                    .or_else(|stop| stop.context(&format!("{name} ({kind:?}{when})")))?;
            }
        }
    }
    Ok(())
}

fn cases(loss: &dyn Loss) -> Result<Vec<(&'static str, Case)>, NotPassed> {
    let rows = |values: &[f64]| {
        let mut all = Tensor::zeros([values.len() as i64, DIMENSIONS], (Kind::Double, Device::Cpu));
        for (row, &value) in values.iter().enumerate() {
            let _ = all.get(row as i64).fill_(value);
        }
        all = unit(&all);
        all
    };
    let mut doubled = Case::new(loss, &[0, 0, 1, 1], 1)?;
    doubled.embeddings = doubled.embeddings.detach().index_select(0, &Tensor::from_slice(&[0i64, 0, 2, 2]));
    doubled.ids = Tensor::from_slice(&[4i64, 4, 9, 9]);
    let mut nothing = Case::usual(loss, 2)?;
    nothing.weights = Some(Tensor::zeros([12], (Kind::Double, Device::Cpu)));
    let mut some = Case::usual(loss, 3)?;
    some.weights = Some(Tensor::from_slice(&[0.0f64, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.5, 0.0, 0.0]));
    Ok(vec![
        ("a single row", Case::new(loss, &[3], 1)?),
        ("all of one class", Case::new(loss, &[2, 2, 2, 2], 1)?),
        ("every row of a different class", Case::new(loss, &[0, 1, 2, 3, 4], 1)?),
        ("a class of one", Case::new(loss, &[0, 0, 0, 5], 1)?),
        ("one sample drawn twice", doubled),
        ("all embeddings equal", Case::with(loss, rows(&[1.0, 1.0, 1.0, 1.0]), &[0, 0, 1, 1])?),
        ("opposite embeddings", Case::with(loss, rows(&[1.0, -1.0, 1.0, -1.0]), &[0, 0, 1, 1])?),
        ("all weights 0", nothing),
        ("most weights 0", some),
    ])
}
