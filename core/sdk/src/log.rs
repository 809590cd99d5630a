//! Named scalars that a component logs to TensorBoard.

use tch::Tensor;

/// Collects named scalars during one call.
///
/// Values stay on the device until the engine reads all of them at once, and closures run only on steps that are
/// logged, so logging does not slow training down.
#[derive(Debug, Default)]
pub struct Log {
    enabled: bool,
    scalars: Vec<(String, Tensor)>,
}

impl Log {
    /// A log that keeps its scalars.
    pub fn enabled() -> Self {
        Self { enabled: true, scalars: Vec::new() }
    }

    /// A log that drops everything.
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

    /// Everything logged so far.
    pub fn scalars(&self) -> &[(String, Tensor)] {
        &self.scalars
    }

    /// Everything logged so far, by value.
    pub fn into_scalars(self) -> Vec<(String, Tensor)> {
        self.scalars
    }
}
