//! Where the time of a run goes.

use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};
use tch::{Cuda, Device};

/// What a run spends time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Everything before the first step, apart from the untrained model's evaluation.
    Setup,
    /// Waiting for the inputs of a step.
    Data,
    /// The network, forwards.
    Forward,
    /// The loss.
    Loss,
    /// Gradients.
    Backward,
    /// Moving parameters.
    Optimizer,
    /// New weights of the samples, with the embeddings they are computed from.
    Weighting,
    /// Embedding the test samples and measuring.
    Evaluation,
    /// Writing checkpoints.
    Checkpoint,
    /// Writing metrics, histograms and pictures.
    Tracking,
    /// Everything else.
    Other,
}

impl Part {
    /// All of them, in the order of a run.
    pub const ALL: [Part; 11] = [
        Part::Setup,
        Part::Data,
        Part::Forward,
        Part::Loss,
        Part::Backward,
        Part::Optimizer,
        Part::Weighting,
        Part::Evaluation,
        Part::Checkpoint,
        Part::Tracking,
        Part::Other,
    ];
    /// Those of a single step.
    pub const STEP: [Part; 5] = [Part::Data, Part::Forward, Part::Loss, Part::Backward, Part::Optimizer];

    /// As in tables and names of scalars.
    pub fn name(self) -> &'static str {
        match self {
            Part::Setup => "setup",
            Part::Data => "data",
            Part::Forward => "forward",
            Part::Loss => "loss",
            Part::Backward => "backward",
            Part::Optimizer => "optimizer",
            Part::Weighting => "weighting",
            Part::Evaluation => "evaluation",
            Part::Checkpoint => "checkpoint",
            Part::Tracking => "tracking",
            Part::Other => "other",
        }
    }
}

/// Time spent on each part.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times([Duration; Part::ALL.len()]);

impl Times {
    /// Time spent on one part.
    pub fn get(&self, part: Part) -> Duration {
        self.0[part as usize]
    }

    /// Adds to a part.
    pub fn add(&mut self, part: Part, time: Duration) {
        self.0[part as usize] += time;
    }

    /// Time spent on all parts.
    pub fn sum(&self) -> Duration {
        self.0.iter().sum()
    }

    fn add_all(&mut self, other: &Times) {
        Part::ALL.iter().for_each(|&part| self.add(part, other.get(part)));
    }
}

/// Tells one part from the next.
///
/// On CUDA, work is only queued, so without waiting the time between two laps says how long the
/// queueing took. A waiting stopwatch waits for the device at every lap, which costs time itself.
#[derive(Debug)]
pub struct Stopwatch {
    wait_for: Option<i64>,
    last: Instant,
}

impl Stopwatch {
    /// Begins now. With `wait`, laps wait for the device if it is a CUDA device.
    pub fn start(device: Device, wait: bool) -> Self {
        let wait_for = match device {
            Device::Cuda(index) if wait => i64::try_from(index).ok(),
            _ => None,
        };
        Self { wait_for, last: Instant::now() }
    }

    /// Time since the last lap.
    pub fn lap(&mut self) -> Duration {
        if let Some(index) = self.wait_for {
            Cuda::synchronize(index);
        }
        let now = Instant::now();
        now - std::mem::replace(&mut self.last, now)
    }

    /// Adds the time since the last lap to a part.
    pub fn count(&mut self, part: Part, times: &mut Times) {
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
    /// Of the current epoch.
    epoch: Times,
    epoch_started: Instant,
}

impl Profile {
    /// Begins now. Unless it is `wanted`, it measures without waiting for the device and says nothing.
    pub fn start(device: Device, wanted: bool) -> Self {
        let (now, times) = (Instant::now(), Times::default());
        Self { device, wanted, started: now, times, steps: 0, epochs: 0, epoch: times, epoch_started: now }
    }

    /// Whether somebody asked for it.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// A stopwatch for something outside the steps.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start(self.device, self.wanted)
    }

    /// Adds the time since the stopwatch's last lap to a part.
    pub fn count(&mut self, part: Part, stopwatch: &mut Stopwatch) {
        stopwatch.count(part, &mut self.epoch);
    }

    /// Adds some steps.
    pub fn steps(&mut self, steps: usize, times: &Times) {
        self.steps += steps;
        self.epoch.add_all(times);
    }

    /// Ends an epoch, or what came before the first. Returns the seconds of its parts.
    pub fn end_epoch(&mut self, trained: bool) -> Vec<(Part, f64)> {
        let elapsed = self.epoch_started.elapsed();
        let times = std::mem::take(&mut self.epoch);
        self.epochs += u64::from(trained);
        self.times.add_all(&times);
        self.epoch_started = Instant::now();
        let mut seconds: Vec<_> = Part::ALL.iter().map(|&part| (part, times.get(part).as_secs_f64())).collect();
        let other = elapsed.saturating_sub(times.sum()).as_secs_f64();
        seconds.iter_mut().filter(|(part, _)| *part == Part::Other).for_each(|(_, seconds)| *seconds = other);
        seconds
    }

    /// Everything so far, if it is wanted.
    pub fn summary(&self) -> Option<ProfileSummary> {
        if !self.wanted {
            return None;
        }
        let mut times = self.times;
        times.add_all(&self.epoch);
        let total = self.started.elapsed();
        times.add(Part::Other, total.saturating_sub(times.sum()));
        let seconds = total.as_secs_f64();
        let line = |part: Part| {
            let spent = times.get(part).as_secs_f64();
            let per_step = Part::STEP.contains(&part) && self.steps > 0;
            PartTime {
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
            parts: Part::ALL.iter().map(|&part| line(part)).collect(),
        })
    }
}

/// Where a process spent its time, for people and programs.
#[derive(Debug, Clone, Serialize)]
pub struct ProfileSummary {
    /// How long it took altogether.
    pub seconds: f64,
    /// Epochs in it.
    pub epochs: u64,
    /// Steps in it.
    pub steps: usize,
    /// Whether the device was waited for after every part.
    pub synchronised: bool,
    /// All parts in the order of a run.
    pub parts: Vec<PartTime>,
}

/// The time of one part.
#[derive(Debug, Clone, Serialize)]
pub struct PartTime {
    /// The part.
    pub part: Part,
    /// Seconds spent on it.
    pub seconds: f64,
    /// Share of all the time.
    pub share: f64,
    /// Milliseconds of a step, for parts of a step.
    pub ms_per_step: Option<f64>,
}

impl fmt::Display for ProfileSummary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { seconds, epochs, steps, .. } = self;
        writeln!(f, "where {seconds:.1} s went ({epochs} epochs, {steps} steps)")?;
        if self.synchronised {
            writeln!(
                f,
                "the device was waited for after every part, so the whole took longer than without `--profile`"
            )?;
        }
        writeln!(f, "{:<12}{:>10}{:>9}{:>10}", "part", "seconds", "share", "ms/step")?;
        for PartTime { part, seconds, share, ms_per_step } in &self.parts {
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
    fn parts_add_up_to_the_whole() {
        let mut profile = Profile::start(Device::Cpu, true);
        let mut stopwatch = profile.stopwatch();
        std::thread::sleep(Duration::from_millis(3));
        profile.count(Part::Setup, &mut stopwatch);
        profile.end_epoch(false);
        let mut times = Times::default();
        times.add(Part::Forward, Duration::from_millis(2));
        profile.steps(2, &times);
        let epoch = profile.end_epoch(true);
        assert!(epoch.contains(&(Part::Forward, 0.002)) && epoch.contains(&(Part::Setup, 0.0)));

        let summary = profile.summary().unwrap();
        let sum: f64 = summary.parts.iter().map(|part| part.seconds).sum();
        assert!(sum >= summary.seconds - 1e-9, "{sum} of {}", summary.seconds);
        assert_eq!((summary.epochs, summary.steps, summary.synchronised), (1, 2, false));
        assert_eq!(summary.parts[Part::Forward as usize].ms_per_step, Some(1.0));
        assert!(summary.parts[Part::Setup as usize].seconds >= 0.003);
        assert!(summary.to_string().lines().any(|line| line.starts_with("forward") && line.ends_with("1.00")));
    }

    #[test]
    fn nothing_is_said_unasked() {
        assert!(Profile::start(Device::Cpu, false).summary().is_none());
    }
}
