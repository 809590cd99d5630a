//! Stochastic gradient descent with momentum.

use super::{Rates, Rule};
use tch::Tensor;

pub(super) struct Sgd {
    pub momentum: f64,
    pub nesterov: bool,
}

impl Rule for Sgd {
    fn moments(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn update(&self, parameter: &mut Tensor, gradient: &Tensor, moments: &mut [Tensor], rates: Rates, _step: u64) {
        // Shares memory with the parameter's gradient, which is cleared after the step.
        let mut direction = gradient.shallow_clone();
        if rates.weight_decay != 0.0 {
            direction += &*parameter * rates.weight_decay;
        }
        if let [velocity] = moments {
            let _ = velocity.g_mul_scalar_(self.momentum);
            let _ = velocity.g_add_(&direction);
            direction = if self.nesterov { direction + &*velocity * self.momentum } else { velocity.shallow_clone() };
        }
        let _ = parameter.g_sub_(&(direction * rates.lr));
    }
}
