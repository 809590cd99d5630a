//! RMSprop (Hinton, 2012), with momentum.

use super::{Rates, Rule, UpdateBatch};
use tch::{Kind, TchError, Tensor};

pub(super) struct Rmsprop {
    pub alpha: f64,
    pub eps: f64,
    pub momentum: f64,
}

impl Rule for Rmsprop {
    fn moments(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &["square_avg"] } else { &["square_avg", "momentum"] }
    }

    /// libtorch has no fused kernel for RMSprop, so parameters are updated one by one.
    fn update(&self, batch: &UpdateBatch, rates: Rates) -> Result<(), TchError> {
        for (index, (parameter, gradient)) in batch.parameters.iter().zip(&batch.gradients).enumerate() {
            let decay = |g: &Tensor| {
                if rates.weight_decay == 0.0 { g.shallow_clone() } else { g + *parameter * rates.weight_decay }
            };
            let gradient = decay(gradient);
            let old_square = batch.moments[0][index];
            let square = old_square * self.alpha + gradient.square() * (1.0 - self.alpha);
            let mut direction = gradient / (square.sqrt() + self.eps);
            set(old_square, &square, batch.skip)?;
            if let Some(velocities) = batch.moments.get(1) {
                direction += velocities[index] * self.momentum;
                set(velocities[index], &direction, batch.skip)?;
            }
            set(parameter, &(*parameter - direction * rates.lr), batch.skip)?;
        }
        Ok(())
    }
}

/// Overwrites the tensor, unless the step is skipped.
fn set(tensor: &Tensor, values: &Tensor, skip: Option<&Tensor>) -> Result<(), TchError> {
    let mut target = tensor.shallow_clone();
    match skip {
        Some(skip) => target.f_copy_(&tensor.f_where_self(&skip.f_to_kind(Kind::Bool)?, values)?),
        None => target.f_copy_(values),
    }
}
