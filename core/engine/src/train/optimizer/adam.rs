//! Adam (Kingma & Ba, 2015) and AdamW (Loshchilov & Hutter, 2019).

use super::{Rates, Rule};
use tch::Tensor;

pub(super) struct Adam {
    pub betas: [f64; 2],
    pub eps: f64,
    /// AdamW: decay the parameter itself instead of adding to its gradient.
    pub decoupled: bool,
}

impl Rule for Adam {
    fn moments(&self) -> &'static [&'static str] {
        &["exp_avg", "exp_avg_sq"]
    }

    fn update(&self, parameter: &mut Tensor, gradient: &Tensor, moments: &mut [Tensor], rates: Rates, step: u64) {
        let [mean, square] = moments else { return };
        // Shares memory with the parameter's gradient, which is cleared after the step.
        let mut gradient = gradient.shallow_clone();
        if rates.weight_decay != 0.0 {
            if self.decoupled {
                let _ = parameter.g_mul_scalar_(1.0 - rates.lr * rates.weight_decay);
            } else {
                gradient += &*parameter * rates.weight_decay;
            }
        }
        let [beta1, beta2] = self.betas;
        let _ = mean.lerp_(&gradient, 1.0 - beta1);
        let _ = square.g_mul_scalar_(beta2);
        let _ = square.g_add_(&(gradient.square() * (1.0 - beta2)));

        let step = i32::try_from(step).unwrap_or(i32::MAX);
        let (correction1, correction2) = (1.0 - beta1.powi(step), 1.0 - beta2.powi(step));
        let denominator = square.sqrt() / correction2.sqrt() + self.eps;
        let _ = parameter.g_sub_(&(&*mean / denominator * (rates.lr / correction1)));
    }
}
