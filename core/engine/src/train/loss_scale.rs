//! Dynamic loss scaling, for gradients too small for f16.

use super::restore::copy;
use crate::{Error, Result};
use std::collections::HashMap;
use tch::{Device, Kind, TchError, Tensor};

/// The largest finite f16 is 65,504: start where small losses fit, and halve the scale on overflow.
const FIRST: f64 = 65_536.0;
/// Steps without overflow after which the scale is doubled.
const PATIENCE: i64 = 2_000;
/// Names in a checkpoint.
const SCALE: &str = "loss_scale.scale";
const GOOD_STEPS: &str = "loss_scale.good_steps";
const SKIPPED: &str = "loss_scale.skipped";

/// A factor on the loss that adapts to the gradients: halved when they overflow, which also skips the
/// step, and doubled after many steps without overflow. Everything stays on the device.
#[derive(Debug)]
pub struct LossScale {
    scale: Tensor,
    /// Steps since the scale changed.
    good_steps: Tensor,
    /// 1 if gradients of the current step are not finite.
    overflow: Tensor,
    /// Steps whose gradients were not finite.
    skipped: Tensor,
}

impl LossScale {
    /// Gradients that overflow at this scale are not finite at any: even f16's largest number would be small.
    pub(super) const LOWEST: f64 = 1e-6;

    /// The scale before the first step.
    pub fn new(device: Device) -> Self {
        let number = |value, kind| Tensor::full([], value, (kind, device));
        Self {
            scale: number(FIRST, Kind::Float),
            good_steps: number(0.0, Kind::Int),
            overflow: number(0.0, Kind::Float),
            skipped: number(0.0, Kind::Float),
        }
    }

    /// The scaled loss, for the backward pass.
    pub fn apply(&self, loss: &Tensor) -> Tensor {
        loss * &self.scale
    }

    /// Unscales the gradients. The result, on the device, is 1 if any is not finite.
    pub(super) fn unscale(&mut self, gradients: &[&Tensor]) -> Result<Tensor, TchError> {
        let _ = self.overflow.f_zero_()?;
        if !gradients.is_empty() {
            curricle_torch::unscale(gradients, &self.overflow, &self.scale.f_reciprocal()?)?;
        }
        Ok(self.overflow.shallow_clone())
    }

    /// Updates the scale for the next step.
    pub(super) fn adapt(&mut self) -> Result<(), TchError> {
        let Self { scale, good_steps, overflow, skipped } = self;
        *skipped += &*overflow;
        let _ = scale.f_internal_amp_update_scale_(good_steps, overflow, 2.0, 0.5, PATIENCE)?;
        Ok(())
    }

    /// The scale, on the device.
    pub fn value(&self) -> Tensor {
        self.scale.shallow_clone()
    }

    /// How many steps were skipped because gradients overflowed, on the device.
    pub fn skipped(&self) -> Tensor {
        self.skipped.shallow_clone()
    }

    /// The tensors for a checkpoint.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        [(SCALE, &self.scale), (GOOD_STEPS, &self.good_steps), (SKIPPED, &self.skipped)]
            .map(|(name, tensor)| (name.to_string(), tensor.shallow_clone()))
            .into()
    }

    /// Restores the tensors of [`LossScale::state`].
    pub fn restore(&mut self, state: &HashMap<String, Tensor>) -> Result<()> {
        let Self { scale, good_steps, skipped, .. } = self;
        for (name, tensor) in [(SCALE, scale), (GOOD_STEPS, good_steps), (SKIPPED, skipped)] {
            let missing = || Error::MissingTensor(name.to_string());
            copy(tensor, state.get(name).ok_or_else(missing)?, name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_doubles_after_many_good_steps_also_across_a_checkpoint() {
        let mut scale = LossScale::new(Device::Cpu);
        let good = |scale: &mut LossScale, steps: i64| {
            for _ in 0..steps {
                let _ = scale.unscale(&[&Tensor::from_slice(&[1.0f32])]).unwrap();
                scale.adapt().unwrap();
            }
        };
        good(&mut scale, PATIENCE - 1);
        assert_eq!(scale.value().double_value(&[]), FIRST);
        let saved = scale.state().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect();
        let mut resumed = LossScale::new(Device::Cpu);
        resumed.restore(&saved).unwrap();
        good(&mut resumed, 1);
        assert_eq!(resumed.value().double_value(&[]), 2.0 * FIRST);
    }
}
