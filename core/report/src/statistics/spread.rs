//! Mean, standard deviation and confidence interval.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean and spread of a number over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; absent for one run.
    pub std: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// The 95 % confidence interval of the mean by Student's t; absent for one run.
    pub interval: Option<[f64; 2]>,
}

impl Spread {
    /// Mean and spread of the values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        if runs == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (runs > 1).then(|| (squares / (runs - 1) as f64).sqrt());
        let interval = std.and_then(|std| {
            let half = student(runs - 1)?.inverse_cdf(0.975) * std / (runs as f64).sqrt();
            Some([mean - half, mean + half])
        });
        Some(Self { mean, std, runs, interval })
    }
}

/// Student's t distribution with this many degrees of freedom.
pub(super) fn student(freedom: usize) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom as f64).ok()
}
