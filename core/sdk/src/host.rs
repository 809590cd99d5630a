//! What the host offers to components.

use std::sync::OnceLock;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// For somebody looking for a mistake.
    Debug = 0,
    /// Good to know.
    Info = 1,
    /// The user should look at it.
    Warn = 2,
}

type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Writes a line to the run's log. Works in built-in and in loaded components alike; a loaded
/// one has its own copy of every library, so `tracing` or `println!` would go elsewhere.
pub fn log_line(level: Level, line: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, line);
    }
}

/// Says where lines go. The first call counts.
#[doc(hidden)]
pub fn set_log_sink(sink: impl Fn(Level, &str) + Send + Sync + 'static) {
    let _ = SINK.set(Box::new(sink));
}
