//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody asked the run to stop.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens to Ctrl-C and SIGTERM. The first asks the run to write a checkpoint and leave; the
    /// second ends the program at once.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The order matters: the conditional exit looks at the flag before it is set.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.0))?;
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Asks the run to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run should stop.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
