//! What losses and samplers must return.

use curricle_sdk::Log;
use tch::Tensor;

/// Checks that a loss is a scalar with a gradient, on the device of the embeddings.
pub(crate) fn check_loss(loss: Tensor, embeddings: &Tensor) -> curricle_sdk::Result<Tensor> {
    let wrong = |what: String| Err(curricle_sdk::Error::other(what));
    if loss.numel() != 1 {
        return wrong(format!("must return a scalar, not a tensor of shape {:?}", loss.size()));
    }
    if loss.kind() != embeddings.kind() && loss.kind() != tch::Kind::Float {
        return wrong(format!("returned a scalar of type {:?} for embeddings of {:?}", loss.kind(), embeddings.kind()));
    }
    if !loss.requires_grad() {
        return wrong("returned a scalar that is detached from the embeddings, so nothing can be learned".into());
    }
    if loss.device() != embeddings.device() {
        return wrong(format!("returned a scalar on {:?} for embeddings on {:?}", loss.device(), embeddings.device()));
    }
    Ok(loss)
}

pub(super) fn check_log(log: &Log) -> curricle_sdk::Result<()> {
    match log.scalars().iter().find(|(_, value)| value.numel() != 1) {
        Some((name, value)) => Err(curricle_sdk::Error::other(format!(
            "logged a tensor of shape {:?} as `{name}`, which must be a scalar",
            value.size()
        ))),
        None => Ok(()),
    }
}

pub(crate) fn check_batches(batches: &[Vec<i64>], samples: usize) -> Result<(), String> {
    if batches.is_empty() {
        return Err("returned no batches for the epoch".into());
    }
    for (number, batch) in batches.iter().enumerate() {
        if batch.is_empty() {
            return Err(format!("returned an empty batch ({} of {})", number + 1, batches.len()));
        }
        if let Some(id) = batch.iter().find(|&&id| usize::try_from(id).map_or(true, |id| id >= samples)) {
            return Err(format!("put sample {id} in batch {}, but there are {samples} samples", number + 1));
        }
    }
    Ok(())
}
