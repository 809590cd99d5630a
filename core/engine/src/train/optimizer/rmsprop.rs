//! RMSprop (Hinton, 2012), with momentum.

use super::{Rates, Rule};
use tch::Tensor;

pub(super) struct Rmsprop {
    pub alpha: f64,
    pub eps: f64,
    pub momentum: f64,
}

impl Rule for Rmsprop {
    fn moments(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &["square_avg"] } else { &["square_avg", "momentum"] }
    }

    fn update(&self, parameter: &mut Tensor, gradient: &Tensor, moments: &mut [Tensor], rates: Rates, _step: u64) {
        let Some((square, velocity)) = moments.split_first_mut() else { return };
        // Shares memory with the parameter's gradient, which is cleared after the step.
        let mut gradient = gradient.shallow_clone();
        if rates.weight_decay != 0.0 {
            gradient += &*parameter * rates.weight_decay;
        }
        let _ = square.g_mul_scalar_(self.alpha);
        let _ = square.g_add_(&(gradient.square() * (1.0 - self.alpha)));
        let mut direction = gradient / (square.sqrt() + self.eps);
        if let [velocity] = velocity {
            let _ = velocity.g_mul_scalar_(self.momentum);
            let _ = velocity.g_add_(&direction);
            direction = velocity.shallow_clone();
        }
        let _ = parameter.g_sub_(&(direction * rates.lr));
    }
}
