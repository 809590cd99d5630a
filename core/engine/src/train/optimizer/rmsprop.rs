//! RMSprop (Hinton, 2012), with momentum.

use super::{Rates, Rule, UpdateBatch};
use tch::TchError;

pub(super) struct Rmsprop {
    pub alpha: f64,
    pub eps: f64,
    pub momentum: f64,
}

impl Rule for Rmsprop {
    fn moments(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &["square_avg"] } else { &["square_avg", "momentum"] }
    }

    fn update(&self, batch: &UpdateBatch, rates: Rates) -> Result<(), TchError> {
        let Self { alpha, eps, momentum } = *self;
        let Rates { lr, weight_decay } = rates;
        let momenta = batch.moments.get(1).map_or(&[][..], Vec::as_slice);
        curricle_torch::Rmsprop { lr, alpha, eps, momentum, weight_decay }.update(
            &batch.parameters,
            &batch.gradients,
            &batch.moments[0],
            momenta,
            batch.skip,
        )
    }
}
