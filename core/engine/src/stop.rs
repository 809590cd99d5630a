//! Stopping on Ctrl-C, SIGTERM and SIGHUP.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Signals this close together are one request: a job scheduler signals a script and its children,
/// and the script forwards its own signal.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Evaluations are not interrupted, so stopping may take a while.
const HEARD: &[u8] = b"\nstopping after the current step or evaluation; press Ctrl-C again to quit immediately\n";

/// A request to stop the run.
#[derive(Debug, Clone)]
pub struct StopSignal {
    /// Milliseconds from `made` to the first request; `u64::MAX` if there is none.
    first: Arc<AtomicU64>,
    made: Instant,
}

impl Default for StopSignal {
    fn default() -> Self {
        Self { first: Arc::new(AtomicU64::new(u64::MAX)), made: Instant::now() }
    }
}

impl StopSignal {
    /// Listens for Ctrl-C, SIGTERM and SIGHUP (a dropped ssh session). The first signal asks the run to write a checkpoint and exit; a
    /// second one, more than a moment later, ends the program immediately.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let watched = std::io::stderr().is_terminal();
        let hangup = (!hangups_ignored()).then_some(signal_hook::consts::SIGHUP);
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM].into_iter().chain(hangup) {
            let heard = stop.clone();
            let action = move || {
                let first = !heard.requested();
                if !heard.note() {
                    signal_hook::low_level::exit(128 + signal);
                }
                if first && watched {
                    // SAFETY: the pointer and the length are those of one slice.
                    unsafe { libc::write(libc::STDERR_FILENO, HEARD.as_ptr().cast(), HEARD.len()) };
                }
            };
            // SAFETY: the action reads the clock, changes an atomic, writes to a file descriptor and may end
            // the process, all of which are allowed in a signal handler.
            unsafe { signal_hook::low_level::register(signal, action)? };
        }
        Ok(stop)
    }

    /// Asks the run to stop.
    pub fn request(&self) {
        self.note();
    }

    /// Whether the run should stop.
    pub fn requested(&self) -> bool {
        self.first.load(Ordering::Relaxed) != u64::MAX
    }

    /// Records a request; false if it is a second one rather than part of the first.
    fn note(&self) -> bool {
        let now = u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        match self.first.compare_exchange(u64::MAX, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(first) => u128::from(now.saturating_sub(first)) < SAME_REQUEST.as_millis(),
        }
    }
}

/// Whether the program was started to survive the end of its session, as `nohup` does.
fn hangups_ignored() -> bool {
    // SAFETY: without a new action, the call only fills in the present one, for which zeros are a valid value.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut present) == 0 && present.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_requests_count_as_one_and_a_later_one_as_another() {
        let stop = StopSignal::default();
        assert!(!stop.requested());
        assert!(stop.note() && stop.note() && stop.requested());
        stop.first.store(0, Ordering::Relaxed);
        let earlier = StopSignal { made: Instant::now() - Duration::from_secs(2), ..stop };
        assert!(!earlier.note());
    }
}
