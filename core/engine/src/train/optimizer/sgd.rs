//! Stochastic gradient descent with momentum.

use super::{Rates, Rule, UpdateBatch};
use tch::TchError;

pub(super) struct Sgd {
    pub momentum: f64,
    pub nesterov: bool,
}

impl Rule for Sgd {
    fn moments(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn update(&self, batch: &UpdateBatch, rates: Rates) -> Result<(), TchError> {
        let Self { momentum, nesterov } = *self;
        let Rates { lr, weight_decay } = rates;
        let momenta = batch.moments.first().map_or(&[][..], Vec::as_slice);
        // Without momentum Nesterov changes nothing, and libtorch rejects the combination.
        let nesterov = nesterov && momentum != 0.0;
        curricle_torch::Sgd { lr, momentum, nesterov, weight_decay }.update(
            &batch.parameters,
            &batch.gradients,
            momenta,
            batch.skip,
        )
    }
}
