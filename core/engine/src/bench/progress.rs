//! Overall progress of a bench.

use crate::progress;
use crate::progress::ProgressMode;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Progress-bar units per run.
const PARTS: f64 = 1000.0;

/// Progress of many runs, several of which run in parallel.
#[derive(Debug)]
pub struct BenchProgress {
    bar: ProgressBar,
    total: usize,
    done: usize,
    failed: usize,
    /// Work done by this process, in runs.
    worked: f64,
    running: HashMap<usize, Share>,
    started: Instant,
}

/// A run's progress as a fraction: when this process started it, and now.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    from: f64,
    to: f64,
}

impl BenchProgress {
    /// Progress of `total` runs.
    pub fn new(mode: ProgressMode, total: usize) -> Self {
        let bar = match mode {
            ProgressMode::Bar => progress::add(ProgressBar::new((total as f64 * PARTS) as u64)),
            _ => ProgressBar::hidden(),
        };
        let template = "{prefix} {bar:30} {wide_msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        let new =
            Self { bar, total, done: 0, failed: 0, worked: 0.0, running: HashMap::new(), started: Instant::now() };
        new.draw();
        new
    }

    /// Records that a run was started.
    pub fn started(&mut self, run: usize) {
        self.running.insert(run, Share::default());
        self.draw();
    }

    /// Handles a line of a run's output; lines about epochs update its progress.
    pub fn line(&mut self, run: usize, line: &str) {
        let (Some((epoch, epochs)), Some(share)) = (epoch_of(line), self.running.get_mut(&run)) else { return };
        if share.to == 0.0 {
            share.from = (epoch - 1.0) / epochs;
        }
        share.to = epoch / epochs;
        self.draw();
    }

    /// Records that a run has ended.
    pub fn finished(&mut self, run: usize, failed: bool, skipped: bool) {
        let share = self.running.remove(&run).unwrap_or_default();
        self.done += 1;
        self.failed += usize::from(failed);
        if !skipped {
            self.worked += 1.0 - share.from;
        }
        self.draw();
    }

    /// Number of runs that have ended.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Number of all runs.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Estimated from the speed of this process alone; earlier work says nothing about it.
    pub fn time_left(&self) -> Option<Duration> {
        let worked = self.worked + self.running.values().map(|share| share.to - share.from).sum::<f64>();
        let left = (self.total - self.done) as f64 - self.running.values().map(|share| share.to).sum::<f64>();
        if worked <= 0.0 || left <= 0.0 {
            return None;
        }
        Duration::try_from_secs_f64(self.started.elapsed().as_secs_f64() / worked * left).ok()
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn draw(&self) {
        let shares: f64 = self.running.values().map(|share| share.to).sum();
        self.bar.set_position(((self.done as f64 + shares) * PARTS) as u64);
        self.bar.set_prefix(format!("{}/{} runs", self.done, self.total));
        let mut parts = vec![format!("{} running", self.running.len())];
        parts.extend((self.failed > 0).then(|| format!("{} failed", self.failed)));
        parts.extend(self.time_left().map(|left| format!("{} left", progress::duration(left))));
        self.bar.set_message(parts.join("  "));
    }
}

/// The two numbers of `epoch  3/10  …`.
fn epoch_of(line: &str) -> Option<(f64, f64)> {
    let (epoch, rest) = line.trim_start().strip_prefix("epoch")?.split_once('/')?;
    let epochs = rest.split_whitespace().next()?;
    let (epoch, epochs) = (epoch.trim().parse::<f64>().ok()?, epochs.parse::<f64>().ok()?);
    (epoch >= 1.0 && epochs >= epoch).then_some((epoch, epochs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_parsed_from_a_run_s_output() {
        assert_eq!(epoch_of("epoch  3/10  loss 0.25"), Some((3.0, 10.0)));
        for other in ["resumed in epoch 3", "epoch x/3", "epoch 0/3", "epoch 4/3"] {
            assert_eq!(epoch_of(other), None, "{other}");
        }
    }

    #[test]
    fn time_left_only_counts_the_work_of_this_process() {
        let mut progress = BenchProgress::new(ProgressMode::Quiet, 4);
        assert_eq!(progress.time_left(), None);
        progress.finished(0, false, true);
        assert_eq!(progress.time_left(), None, "a skipped run gives no speed estimate");
        progress.started = Instant::now() - Duration::from_secs(100);
        progress.started(1);
        progress.finished(1, false, false);
        // Resumed at its middle and now three quarters done: this process did a quarter of it.
        progress.started(2);
        progress.line(2, "epoch 3/4  loss 1");
        let left = progress.time_left().unwrap().as_secs_f64();
        assert!((left - 100.0 / 1.25 * 1.25).abs() < 1.0, "{left}");
    }
}
