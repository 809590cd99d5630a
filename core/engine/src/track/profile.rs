//! Profiles: where the time of a run goes.

use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};
use tch::{Cuda, Device};

/// A part of a run that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Everything before the first step, except for the evaluation of the untrained model.
    Setup,
    /// Waiting for the inputs of a step.
    Data,
    /// Forward pass of the network.
    Forward,
    /// The loss.
    Loss,
    /// Backward pass.
    Backward,
    /// Optimiser step.
    Optimizer,
    /// Updating the sample weights, including the embeddings they are computed from.
    Weighting,
    /// Embedding the test samples and computing metrics.
    Evaluation,
    /// Writing checkpoints.
    Checkpoint,
    /// Writing metrics, histograms and images.
    Tracking,
    /// Everything else.
    Other,
}

impl Phase {
    /// All parts, in the order of a run.
    pub const ALL: [Phase; 11] = [
        Phase::Setup,
        Phase::Data,
        Phase::Forward,
        Phase::Loss,
        Phase::Backward,
        Phase::Optimizer,
        Phase::Weighting,
        Phase::Evaluation,
        Phase::Checkpoint,
        Phase::Tracking,
        Phase::Other,
    ];
    /// The parts of a single step.
    pub const STEP: [Phase; 5] = [Phase::Data, Phase::Forward, Phase::Loss, Phase::Backward, Phase::Optimizer];

    /// Its name in tables and scalar tags.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Setup => "setup",
            Phase::Data => "data",
            Phase::Forward => "forward",
            Phase::Loss => "loss",
            Phase::Backward => "backward",
            Phase::Optimizer => "optimizer",
            Phase::Weighting => "weighting",
            Phase::Evaluation => "evaluation",
            Phase::Checkpoint => "checkpoint",
            Phase::Tracking => "tracking",
            Phase::Other => "other",
        }
    }
}

/// Time spent on each part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times([Duration; Phase::ALL.len()]);

impl Times {
    /// Time spent on one part.
    pub fn get(&self, part: Phase) -> Duration {
        self.0[part as usize]
    }

    /// Adds time to a part.
    pub fn add(&mut self, part: Phase, time: Duration) {
        self.0[part as usize] += time;
    }

    /// Time spent on all parts.
    pub fn sum(&self) -> Duration {
        self.0.iter().sum()
    }

    fn add_all(&mut self, other: &Times) {
        Phase::ALL.iter().for_each(|&part| self.add(part, other.get(part)));
    }
}

/// Measures the time of consecutive parts.
///
/// CUDA calls are asynchronous: without synchronisation, the time between two laps covers only the
/// queueing of kernels. A waiting stopwatch synchronises at every lap, which takes time itself.
#[derive(Debug)]
pub struct Stopwatch {
    wait_for: Option<i64>,
    last: Instant,
}

impl Stopwatch {
    /// Starts now. With `wait`, laps synchronise with a CUDA device.
    pub fn start(device: Device, wait: bool) -> Self {
        let wait_for = match device {
            Device::Cuda(index) if wait => i64::try_from(index).ok(),
            _ => None,
        };
        Self { wait_for, last: Instant::now() }
    }

    /// Time since the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        if let Some(index) = self.wait_for {
            Cuda::synchronize(index);
        }
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }

    /// Adds the time since the last lap to a part.
    pub fn count(&mut self, part: Phase, times: &mut Times) {
        let time = self.lap();
        times.add(part, time);
    }
}

/// Where a process spent its time.
#[derive(Debug)]
pub struct Profile {
    device: Device,
    wanted: bool,
    started: Instant,
    times: Times,
    steps: usize,
    epochs: u64,
    /// Times of the current epoch.
    epoch: Times,
    epoch_started: Instant,
}

impl Profile {
    /// Starts now. Unless it is `wanted`, it does not synchronise with the device and has no summary.
    pub fn start(device: Device, wanted: bool) -> Self {
        let (now, times) = (Instant::now(), Times::default());
        Self { device, wanted, started: now, times, steps: 0, epochs: 0, epoch: times, epoch_started: now }
    }

    /// Whether the user asked for a profile.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// A stopwatch for something outside the steps.
    pub(crate) fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start(self.device, self.wanted)
    }

    /// Adds the time since the stopwatch's last lap to a part.
    pub fn count(&mut self, part: Phase, stopwatch: &mut Stopwatch) {
        stopwatch.count(part, &mut self.epoch);
    }

    /// Adds the times of some steps.
    pub fn steps(&mut self, steps: usize, times: &Times) {
        self.steps += steps;
        self.epoch.add_all(times);
    }

    /// Ends an epoch, or the setup before the first, and returns the seconds of its parts.
    pub(crate) fn end_epoch(&mut self, trained: bool) -> Vec<(Phase, f64)> {
        let elapsed = self.epoch_started.elapsed();
        let times = std::mem::take(&mut self.epoch);
        self.epochs += u64::from(trained);
        self.times.add_all(&times);
        self.epoch_started = Instant::now();
        let mut seconds: Vec<_> = Phase::ALL.iter().map(|&part| (part, times.get(part).as_secs_f64())).collect();
        let other = elapsed.saturating_sub(times.sum()).as_secs_f64();
        seconds.iter_mut().filter(|(part, _)| *part == Phase::Other).for_each(|(_, seconds)| *seconds = other);
        seconds
    }

    /// The profile so far, if wanted.
    pub fn summary(&self) -> Option<ProfileSummary> {
        if !self.wanted {
            return None;
        }
        let mut times = self.times;
        times.add_all(&self.epoch);
        let total = self.started.elapsed();
        times.add(Phase::Other, total.saturating_sub(times.sum()));
        let seconds = total.as_secs_f64();
        let line = |part: Phase| {
            let spent = times.get(part).as_secs_f64();
            let per_step = Phase::STEP.contains(&part) && self.steps > 0;
            PhaseTime {
                part,
                seconds: spent,
                share: spent / seconds.max(f64::MIN_POSITIVE),
                ms_per_step: per_step.then(|| 1e3 * spent / self.steps as f64),
            }
        };
        Some(ProfileSummary {
            seconds,
            epochs: self.epochs,
            steps: self.steps,
            synchronised: self.device.is_cuda(),
            parts: Phase::ALL.iter().map(|&part| line(part)).collect(),
        })
    }
}

/// The times of a process, for display and as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct ProfileSummary {
    /// Total time.
    pub seconds: f64,
    /// Epochs trained.
    pub epochs: u64,
    /// Steps taken.
    pub steps: usize,
    /// Whether the device was synchronised after every part.
    pub synchronised: bool,
    /// All parts in the order of a run.
    pub parts: Vec<PhaseTime>,
}

/// The time of one part.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseTime {
    /// The part.
    pub part: Phase,
    /// Seconds spent on it.
    pub seconds: f64,
    /// Share of the total time.
    pub share: f64,
    /// Milliseconds per step, for parts of a step.
    pub ms_per_step: Option<f64>,
}

impl fmt::Display for ProfileSummary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { seconds, epochs, steps, .. } = self;
        let s = |one: bool| if one { "" } else { "s" };
        let (many_epochs, many_steps) = (s(*epochs == 1), s(*steps == 1));
        writeln!(f, "profile of {seconds:.1} s ({epochs} epoch{many_epochs}, {steps} step{many_steps})")?;
        if self.synchronised {
            writeln!(
                f,
                "the device was synchronised after every part, so the run took longer than without `--profile`"
            )?;
        }
        writeln!(f, "{:<12}{:>10}{:>9}{:>10}", "part", "seconds", "share", "ms/step")?;
        for PhaseTime { part, seconds, share, ms_per_step } in &self.parts {
            let per_step = ms_per_step.map_or(String::new(), |ms| format!("{ms:.2}"));
            let line = format!("{:<12}{seconds:>10.2}{:>7.1} %{per_step:>10}", part.name(), 100.0 * share);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_total() {
        let mut profile = Profile::start(Device::Cpu, true);
        let mut stopwatch = profile.stopwatch();
        std::thread::sleep(Duration::from_millis(3));
        profile.count(Phase::Setup, &mut stopwatch);
        profile.end_epoch(false);
        let mut times = Times::default();
        times.add(Phase::Forward, Duration::from_millis(2));
        profile.steps(2, &times);
        let epoch = profile.end_epoch(true);
        assert!(epoch.contains(&(Phase::Forward, 0.002)) && epoch.contains(&(Phase::Setup, 0.0)));

        let summary = profile.summary().unwrap();
        let sum: f64 = summary.parts.iter().map(|part| part.seconds).sum();
        assert!(sum >= summary.seconds - 1e-9, "{sum} of {}", summary.seconds);
        assert_eq!((summary.epochs, summary.steps, summary.synchronised), (1, 2, false));
        assert_eq!(summary.parts[Phase::Forward as usize].ms_per_step, Some(1.0));
        assert!(summary.parts[Phase::Setup as usize].seconds >= 0.003);
        assert!(summary.to_string().lines().any(|line| line.starts_with("forward") && line.ends_with("1.00")));
    }

    #[test]
    fn there_is_no_summary_unless_wanted() {
        assert!(Profile::start(Device::Cpu, false).summary().is_none());
    }
}
