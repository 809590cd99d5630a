//! Collects losses on the device until they are logged.

use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

/// Collects the loss of every step on the device and reads them together, so that training waits for
/// the device once per log entry and not once per step.
#[derive(Debug, Default)]
pub struct Meter {
    /// Losses of the window that have already been read for a checkpoint.
    read: Vec<f32>,
    /// Losses still on the device.
    pending: Vec<Tensor>,
    /// Sum and number of the epoch's losses up to the last window.
    sum: f64,
    count: u64,
}

/// A meter in a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MeterState {
    window: Vec<f32>,
    sum: f64,
    count: u64,
}

/// The losses since the last window, and other scalars read with them.
#[derive(Debug)]
pub struct LossWindow {
    /// One loss per step.
    pub losses: Vec<f32>,
    /// The other scalars, in the order given.
    pub others: Vec<f32>,
}

impl LossWindow {
    /// The mean loss.
    pub fn mean(&self) -> f64 {
        self.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / self.losses.len().max(1) as f64
    }

    /// The first step with a loss that is not finite, if any, counted back from the window's last step.
    pub(crate) fn first_bad(&self) -> Option<usize> {
        self.losses.iter().position(|loss| !loss.is_finite()).map(|index| self.losses.len() - 1 - index)
    }
}

impl Meter {
    /// Adds the loss of a step without waiting for it.
    pub fn push(&mut self, loss: &Tensor) {
        self.pending.push(loss.detach().to_kind(Kind::Float).reshape([1]));
    }

    /// Whether any loss has been pushed since the last window.
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.pending.is_empty()
    }

    /// Reads the losses since the last window, and `others` in the same copy, and starts a new
    /// window.
    pub(crate) fn window(&mut self, others: &[Tensor]) -> LossWindow {
        let others_at = self.pending.len();
        let mut tensors = std::mem::take(&mut self.pending);
        let device = tensors.first().or(others.first()).map_or(Device::Cpu, Tensor::device);
        tensors.extend(others.iter().map(|t| t.detach().to_device(device).to_kind(Kind::Float).reshape([1])));
        let mut losses = std::mem::take(&mut self.read);
        let mut others = Vec::new();
        if !tensors.is_empty() {
            let values = Tensor::cat(&tensors, 0).to_device(Device::Cpu);
            let mut values: Vec<f32> = Vec::try_from(&values).unwrap_or_default();
            others = values.split_off(others_at);
            losses.extend(values);
        }
        self.sum += losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        self.count += losses.len() as u64;
        LossWindow { losses, others }
    }

    /// Mean loss of the epoch, over all windows so far.
    pub(crate) fn epoch_mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Saves the meter in a checkpoint, possibly in the middle of a window.
    pub fn save(&mut self) -> MeterState {
        let (sum, count) = (self.sum, self.count);
        let window = self.window(&[]).losses;
        self.read.clone_from(&window);
        (self.sum, self.count) = (sum, count);
        MeterState { window, sum, count }
    }

    /// Continues from a checkpoint.
    pub fn restore(state: MeterState) -> Self {
        Self { read: state.window, pending: Vec::new(), sum: state.sum, count: state.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(meter: &mut Meter, losses: &[f32]) {
        losses.iter().for_each(|&loss| meter.push(&Tensor::from(loss)));
    }

    #[test]
    fn windows_and_epoch_means_survive_a_checkpoint_in_the_middle() {
        let mut whole = Meter::default();
        push(&mut whole, &[1.0, 2.0]);
        whole.window(&[]);
        push(&mut whole, &[4.0, 5.0]);

        let mut cut = Meter::default();
        push(&mut cut, &[1.0, 2.0]);
        cut.window(&[]);
        push(&mut cut, &[4.0]);
        let saved = cut.save();
        assert_eq!(cut.save(), saved, "saving twice changes nothing");
        let mut cut = Meter::restore(saved);
        push(&mut cut, &[5.0]);

        assert_eq!(whole.window(&[]).losses, cut.window(&[]).losses);
        assert_eq!(whole.epoch_mean(), 3.0);
        assert_eq!(cut.epoch_mean(), 3.0);
    }

    #[test]
    fn other_scalars_are_read_with_the_losses() {
        let mut meter = Meter::default();
        push(&mut meter, &[1.0, f32::NAN, 3.0]);
        let window = meter.window(&[Tensor::from(7.0), Tensor::from(8i64)]);
        assert_eq!(window.others, [7.0, 8.0]);
        assert_eq!(window.first_bad(), Some(1));
    }
}
