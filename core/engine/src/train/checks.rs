//! What losses and samplers must return.

use curricle_sdk::Log;
use tch::Tensor;

/// Checks that a loss is a scalar with a gradient, on the device of the embeddings.
pub(crate) fn check_loss(loss: Tensor, embeddings: &Tensor) -> curricle_sdk::Result<Tensor> {
    let wrong = |what: String| Err(curricle_sdk::Error::other(what));
    if loss.is_sparse() {
        return wrong("must return a dense tensor, not a sparse one".into());
    }
    if loss.numel() != 1 {
        return wrong(format!("must return a scalar, not a tensor of shape {:?}; return e.g. its mean", loss.size()));
    }
    if loss.kind() != embeddings.kind() && loss.kind() != tch::Kind::Float {
        let (returned, expected) = (loss.kind(), embeddings.kind());
        return wrong(format!("returned a scalar of type {returned:?} for embeddings of {expected:?}; return Float"));
    }
    if !loss.requires_grad() {
        return wrong(
            "returned a scalar that is detached from the embeddings, so nothing can be learned; compute it from them \
             with gradients recorded"
                .into(),
        );
    }
    if loss.device() != embeddings.device() {
        return wrong(format!(
            "returned a scalar on {:?} for embeddings on {:?}; compute it on the device of its inputs",
            loss.device(),
            embeddings.device()
        ));
    }
    Ok(loss)
}

/// Checks that gradients of a loss reach the embeddings. A loss of proxies alone would train, but not the network.
pub(crate) fn check_connected(loss: &Tensor, embeddings: &Tensor) -> curricle_sdk::Result<()> {
    // A frozen network has nothing to learn from the loss.
    if !embeddings.requires_grad() || curricle_torch::depends(loss, embeddings) {
        return Ok(());
    }
    Err(curricle_sdk::Error::other(
        "returned a loss that does not depend on the embeddings, so the network cannot learn from it; compute it from the \
         embeddings it gets",
    ))
}

/// Checks the weights that a scheme gave the rows of a batch. Their values are checked when they are read, since that
/// waits for the device.
pub(crate) fn check_batch_weights(weights: &Tensor, ids: &Tensor) -> curricle_sdk::Result<Tensor> {
    let is_float = matches!(weights.kind(), tch::Kind::Float | tch::Kind::Double);
    if weights.is_sparse() || weights.size() != ids.size() || !is_float || weights.device() != ids.device() {
        return Err(curricle_sdk::Error::other(format!(
            "returned weights of shape {:?}, type {:?}, on {:?} for a batch of {} on {:?}; return a dense `[B]`",
            weights.size(),
            weights.kind(),
            weights.device(),
            ids.size()[0],
            ids.device()
        )));
    }
    Ok(weights.detach())
}

/// Checks a name under which a component logs: people and other programs read it in charts and tables.
pub(crate) fn check_name(name: &str) -> curricle_sdk::Result<()> {
    if name.trim().is_empty() || name.contains(char::is_control) {
        let shown = name.escape_debug();
        return Err(curricle_sdk::Error::other(format!(
            "logged numbers as `{shown}`; a name must not be empty or contain line breaks"
        )));
    }
    Ok(())
}

pub(crate) fn check_log(log: &Log) -> curricle_sdk::Result<()> {
    for (index, (name, value)) in log.scalars().iter().enumerate() {
        check_name(name)?;
        if log.scalars()[..index].iter().any(|(other, _)| other == name) {
            return Err(curricle_sdk::Error::other(format!("logged `{name}` twice in one call; use different names")));
        }
        if value.is_sparse() || value.is_complex() {
            let what = if value.is_sparse() { "sparse" } else { "complex" };
            return Err(curricle_sdk::Error::other(format!(
                "logged a {what} tensor as `{name}`; log a dense real one"
            )));
        }
        if value.numel() != 1 {
            return Err(curricle_sdk::Error::other(format!(
                "logged a tensor of shape {:?} as `{name}`; log a scalar, e.g. its mean",
                value.size()
            )));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_charts_and_tables_cannot_show_are_refused() {
        for name in ["a", "pos/neg", "ξ⁺ of 3"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for (name, shown) in [("", "``"), (" ", "` `"), ("a\nb", r"`a\nb`"), ("\u{1b}[31m", r"`\u{1b}[31m`")] {
            let message = check_name(name).unwrap_err().to_string();
            assert!(message.contains(shown), "{message}");
        }
    }
}
