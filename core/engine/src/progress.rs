//! Progress of training on standard error.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// All bars of the process, which are suspended while other text is written to standard error.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Writes to standard error without garbling a bar that is shown there.
pub fn print(text: &str) {
    BARS.suspend(|| {
        // If standard error is closed, there is nowhere to report it.
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

/// Adds a bar to those of the process.
pub(crate) fn add(bar: ProgressBar) -> ProgressBar {
    BARS.add(bar)
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// A progress bar, for terminals.
    Bar,
    /// One line per epoch, for files and pipes.
    Lines,
    /// No progress.
    Quiet,
}

impl ProgressMode {
    /// A bar if standard error is a terminal, else lines; nothing if `quiet`.
    pub fn detect(quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match quiet {
            true => Self::Quiet,
            false if std::io::stderr().is_terminal() && !dumb => Self::Bar,
            false => Self::Lines,
        }
    }
}

/// What is shown at the end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpochSummary {
    /// Mean loss of its steps.
    pub loss: f64,
    /// Recall@1 as a fraction, if the epoch was evaluated.
    pub recall_at_1: Option<f64>,
}

/// Shows the progress of a run. Times count from its creation.
#[derive(Debug)]
pub struct Progress {
    mode: ProgressMode,
    bar: ProgressBar,
    epochs: u64,
    steps_per_epoch: u64,
    epochs_done: u64,
    steps_before: u64,
    steps: u64,
    images: u64,
    loss: Option<f64>,
    recall_at_1: Option<f64>,
    started: Instant,
    epoch_started: Instant,
    epoch_images: u64,
    /// When the last step or evaluation ended.
    last: Instant,
    /// Time spent in steps, not in evaluation: in total and in this epoch.
    training: Duration,
    epoch_training: Duration,
}

impl Progress {
    /// Progress over `epochs`, after `epochs_done` epochs and `steps_done` steps of the next one.
    pub fn new(mode: ProgressMode, epochs: u64, steps_per_epoch: u64, epochs_done: u64, steps_done: u64) -> Self {
        let bar = match mode {
            ProgressMode::Bar => BARS.add(ProgressBar::new(epochs * steps_per_epoch)),
            _ => ProgressBar::hidden(),
        };
        bar.set_style(style());
        let (now, steps_before) = (Instant::now(), epochs_done * steps_per_epoch + steps_done);
        bar.set_position(steps_before);
        let progress = Self {
            mode,
            bar,
            epochs,
            steps_per_epoch,
            epochs_done,
            steps_before,
            steps: 0,
            images: 0,
            loss: None,
            recall_at_1: None,
            started: now,
            epoch_started: now,
            epoch_images: 0,
            last: now,
            training: Duration::ZERO,
            epoch_training: Duration::ZERO,
        };
        progress.show(None);
        progress
    }

    /// Shows the current activity, if it is not a step, on a bar until its next update.
    pub(crate) fn activity(&self, what: &str) {
        self.show(Some(what));
    }

    /// Restarts the clock, because the time so far does not predict that of later steps.
    pub(crate) fn restart_clock(&mut self) {
        self.last = Instant::now();
        (self.started, self.epoch_started) = (self.last, self.last);
        self.show(None);
    }

    /// Records finished steps, with their mean loss if it was read back.
    pub fn advance(&mut self, steps: u64, images: usize, loss: Option<f64>) {
        self.steps += steps;
        self.images += images as u64;
        self.epoch_images += images as u64;
        let took = self.last.elapsed();
        self.training += took;
        self.epoch_training += took;
        self.last += took;
        self.loss = loss.or(self.loss);
        self.show(None);
    }

    /// Updates the bar.
    fn show(&self, activity: Option<&str>) {
        if self.mode != ProgressMode::Bar {
            return;
        }
        self.bar.set_prefix(format!("epoch {}/{}", (self.epochs_done + 1).min(self.epochs), self.epochs));
        let rate = (self.images > 0).then(|| per_second(self.images, self.training));
        let left = self.time_left().filter(|_| self.epochs_done < self.epochs);
        let parts = [self.loss.map(loss_text), self.recall_at_1.map(recall_text), rate, left, activity.map(Into::into)];
        self.bar.set_message(parts.into_iter().flatten().collect::<Vec<_>>().join("  "));
        self.bar.set_position(self.steps_before + self.steps);
        if activity.is_some() {
            // Redraws are rate-limited, and this may be shown for long.
            self.bar.force_draw();
        }
    }

    /// Records a finished epoch, including its evaluation.
    pub fn epoch_done(&mut self, summary: &EpochSummary) {
        self.epochs_done += 1;
        self.recall_at_1 = summary.recall_at_1.or(self.recall_at_1);
        if self.mode == ProgressMode::Lines {
            print(&format!("{}\n", self.epoch_line(summary, self.epoch_started.elapsed())));
        }
        self.last = Instant::now();
        self.epoch_started = self.last;
        self.epoch_images = 0;
        self.epoch_training = Duration::ZERO;
        self.show(None);
    }

    /// Prints a line, above the bar if there is one; nothing in quiet mode.
    pub fn message(&self, text: &str) {
        if self.mode != ProgressMode::Quiet {
            print(&format!("{text}\n"));
        }
    }

    /// Leaves the bar as it is.
    pub fn finish(self) {
        self.bar.abandon();
    }

    fn epoch_line(&self, summary: &EpochSummary, took: Duration) -> String {
        let width = self.epochs.to_string().len();
        let rate = per_second(self.epoch_images, self.epoch_training);
        let mut parts = vec![format!("epoch {:>width$}/{}", self.epochs_done, self.epochs), loss_text(summary.loss)];
        parts.extend(summary.recall_at_1.map(recall_text));
        parts.extend([rate, duration(took)]);
        parts.extend(self.time_left().filter(|_| self.epochs_done < self.epochs));
        parts.join("  ")
    }

    /// Estimated from the speed of this process; steps before a resume do not count.
    fn time_left(&self) -> Option<String> {
        let left = (self.epochs * self.steps_per_epoch).saturating_sub(self.steps_before + self.steps);
        let per_step = self.started.elapsed().as_secs_f64() / self.steps as f64;
        let left = Duration::try_from_secs_f64(per_step * left as f64).ok()?;
        Some(format!("{} left", duration(left)))
    }
}

/// Time between two lines of progress that is not shown as a bar.
const BETWEEN_LINES: Duration = Duration::from_secs(20);

/// A plain progress bar or, for files and pipes, a line from time to time if the work takes long.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    mode: ProgressMode,
    what: String,
    started: Instant,
    last_line: Mutex<Instant>,
}

impl Bar {
    /// Progress over `total` pieces of work.
    pub fn new(mode: ProgressMode, what: &str, total: u64) -> Self {
        let bar = match mode {
            ProgressMode::Bar => BARS.add(ProgressBar::new(total)),
            _ => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
        };
        let template = "{prefix} {bar:24} {human_pos}/{human_len}  {rate}  {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{:.0}/s", state.per_sec());
        };
        let style = style.with_key("rate", rate);
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(what.to_string());
        let now = Instant::now();
        Self { bar, mode, what: what.into(), started: now, last_line: Mutex::new(now) }
    }

    /// Advances by one.
    pub fn advance(&self) {
        self.advance_by(1);
    }

    /// Advances by this much.
    pub fn advance_by(&self, count: u64) {
        self.bar.inc(count);
        let is_done = Some(self.bar.position()) >= self.bar.length();
        if self.mode != ProgressMode::Lines || is_done {
            return;
        }
        // If another thread holds the lock, it writes the line.
        let Ok(mut last) = self.last_line.try_lock() else { return };
        if last.elapsed() >= BETWEEN_LINES {
            *last = Instant::now();
            print(&format!("{}\n", self.line(self.started.elapsed())));
        }
    }

    fn line(&self, took: Duration) -> String {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let left = took.as_secs_f64() / done.max(1) as f64 * total.saturating_sub(done) as f64;
        let left = duration(Duration::try_from_secs_f64(left).unwrap_or_default());
        format!("{}: {done} of {total}, about {left} left", self.what)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.abandon();
    }
}

fn style() -> ProgressStyle {
    // The message takes the remaining width of the terminal and is truncated there.
    let template = "{prefix} {bar:24} {pos}/{len}  {wide_msg}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

fn loss_text(loss: f64) -> String {
    format!("loss {loss:.4}")
}

fn recall_text(recall: f64) -> String {
    format!("R@1 {:.2} %", 100.0 * recall)
}

fn per_second(images: u64, time: Duration) -> String {
    format!("{:.0} images/s", images as f64 / time.as_secs_f64().max(1e-9))
}

/// A duration in readable form.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) => format!("{:.1} s", time.as_secs_f64()),
        (0, m, s) => format!("{m}:{s:02} min"),
        (h, m, _) => format!("{h}:{m:02} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_a_readable_unit() {
        let texts = [0, 59, 60, 3599, 3600, 360_000].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(texts, ["0.0 s", "59.0 s", "1:00 min", "59:59 min", "1:00 h", "100:00 h"]);
    }

    #[test]
    fn long_work_without_a_terminal_has_lines_with_an_estimate() {
        let bar = Bar::new(ProgressMode::Lines, "checking files", 50_000);
        bar.advance_by(12_500);
        assert_eq!(bar.line(Duration::from_secs(30)), "checking files: 12500 of 50000, about 1:30 min left");
    }

    #[test]
    fn an_epoch_is_one_line() {
        let mut progress = Progress::new(ProgressMode::Quiet, 10, 4, 0, 0);
        progress.started = Instant::now() - Duration::from_secs(4);
        (0..4).for_each(|_| progress.advance(1, 64, Some(0.5)));
        progress.epochs_done = 1;
        progress.epoch_training = Duration::from_secs(2);
        let summary = EpochSummary { loss: 0.25, recall_at_1: Some(0.6731) };
        let line = progress.epoch_line(&summary, Duration::from_secs(4));
        assert_eq!(line, "epoch  1/10  loss 0.2500  R@1 67.31 %  128 images/s  4.0 s  36.0 s left");
        progress.epochs_done = 10;
        let line = progress.epoch_line(&EpochSummary { loss: f64::NAN, recall_at_1: None }, Duration::from_secs(2));
        assert_eq!(line, "epoch 10/10  loss NaN  128 images/s  2.0 s");
    }

    #[test]
    fn a_resumed_run_continues_at_its_position_with_a_new_speed_estimate() {
        let mut progress = Progress::new(ProgressMode::Quiet, 10, 100, 9, 20);
        assert_eq!(progress.bar.position(), 920);
        assert_eq!(progress.time_left(), None, "no step, no estimate");
        progress.started = Instant::now() - Duration::from_secs(50);
        (0..50).for_each(|_| progress.advance(1, 1, None));
        assert_eq!(progress.time_left().as_deref(), Some("30.0 s left"));
    }
}
