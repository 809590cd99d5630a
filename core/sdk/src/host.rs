//! What the host offers to components.

use std::sync::OnceLock;

/// Level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// Details for debugging.
    Debug = 0,
    /// Information.
    Info = 1,
    /// A warning.
    Warn = 2,
}

type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Writes a line to the run's log, from built-in and loaded components alike. A loaded component has its own copy
/// of every Rust crate, so `tracing` does not reach the log.
pub fn log_line(level: Level, line: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, line);
    }
}

/// Sets where lines go. Only the first call has an effect.
#[doc(hidden)]
pub fn set_log_sink(sink: impl Fn(Level, &str) + Send + Sync + 'static) {
    let _ = SINK.set(Box::new(sink));
}
