//! Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019).

use super::{Rates, Rule, UpdateBatch};
use tch::TchError;

pub(super) struct Adam {
    pub betas: [f64; 2],
    pub eps: f64,
    /// AdamW: decay the parameter directly instead of adding the decay to its gradient.
    pub decoupled: bool,
}

impl Rule for Adam {
    fn moments(&self) -> &'static [&'static str] {
        &["exp_avg", "exp_avg_sq"]
    }

    fn update(&self, batch: &UpdateBatch, rates: Rates) -> Result<(), TchError> {
        let [means, squares] = batch.moments.as_slice() else { return Ok(()) };
        let Self { betas, eps, decoupled } = *self;
        let Rates { lr, weight_decay } = rates;
        curricle_torch::Adam { lr, betas, eps, weight_decay, decoupled }.update(
            &batch.parameters,
            &batch.gradients,
            [means, squares],
            batch.number,
            batch.skip,
        )
    }
}
