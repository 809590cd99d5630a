//! Named numbers that a component logs: scalars for TensorBoard, numbers per sample for `samples.csv`.

use tch::Tensor;

/// Collects named numbers during one call.
///
/// Values stay on the device until the engine reads all of them at once, and closures run only on steps that are
/// logged, so logging does not slow training down.
#[derive(Debug, Default)]
pub struct Log {
    enabled: bool,
    scalars: Vec<(String, Tensor)>,
    per_sample: Vec<(String, Tensor)>,
}

impl Log {
    /// A log that keeps its scalars.
    pub fn enabled() -> Self {
        Self { enabled: true, ..Self::default() }
    }

    /// A log that drops scalars.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Whether scalars are kept during this call.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Logs a one-element tensor under a name such as `informative_positives`.
    pub fn scalar(&mut self, name: &str, value: impl FnOnce() -> Tensor) {
        if self.enabled {
            self.scalars.push((name.to_string(), value().detach()));
        }
    }

    /// The scalars logged so far.
    pub fn scalars(&self) -> &[(String, Tensor)] {
        &self.scalars
    }

    /// Logs one number per row of the batch, `[B]`. The last one of each sample becomes a column of `samples.csv`.
    pub fn per_sample(&mut self, name: &str, values: &Tensor) {
        self.per_sample.push((name.to_string(), values.detach()));
    }

    /// The scalars logged so far, by value.
    pub fn into_scalars(self) -> Vec<(String, Tensor)> {
        self.scalars
    }

    /// Takes the numbers per sample out of the log.
    pub fn take_per_sample(&mut self) -> Vec<(String, Tensor)> {
        std::mem::take(&mut self.per_sample)
    }
}
