//! The choice of solver and its settings.

use crate::doubly_stochastic::{self, Sampling};
use crate::exact::{self, Solution};
use crate::problem::WeightProblem;
use curricle_sdk::{Error, Result, rng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The solver that computes the weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(inline)]
pub enum Solver {
    /// Coordinate descent with exact steps: no step size, no noise.
    Exact {
        /// Maximum number of sweeps over all weights.
        #[serde(default = "sweeps")]
        #[schemars(range(min = 1, max = 1_000_000))]
        sweeps: usize,
        /// Stop when no weight changes by more than this in a sweep.
        #[serde(default = "tolerance")]
        #[schemars(range(min = 0.0))]
        tolerance: f64,
    },
    /// Doubly stochastic projected gradient descent, as published.
    DoublyStochastic {
        /// Number of other classes drawn per iteration (P).
        #[serde(default = "classes")]
        #[schemars(range(min = 1))]
        classes: usize,
        /// Number of weights drawn per class (K).
        #[serde(default = "per_class")]
        #[schemars(range(min = 1))]
        per_class: usize,
        /// Initial step size γ. Default: the mean number of samples per class, because derivatives
        /// shrink with it.
        #[serde(default)]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        step: Option<f64>,
        /// Decay of the step size: after n passes it is `step / (1 + decay · n)`.
        #[serde(default = "decay")]
        #[schemars(range(min = 0.0))]
        decay: f64,
        /// Number of iterations, each of which updates one weight. Default: 20 per sample.
        #[serde(default)]
        #[schemars(range(min = 1, max = 1_000_000_000_000u64))]
        iterations: Option<usize>,
    },
}

fn sweeps() -> usize {
    1000
}

fn tolerance() -> f64 {
    1e-9
}

fn classes() -> usize {
    16
}

fn per_class() -> usize {
    4
}

fn decay() -> f64 {
    1.0
}

/// Number of passes over the data if `iterations` is not set.
const PASSES: usize = 20;

impl Default for Solver {
    fn default() -> Self {
        Solver::Exact { sweeps: sweeps(), tolerance: tolerance() }
    }
}

impl Solver {
    /// Refuses invalid settings.
    pub fn check(&self) -> Result<()> {
        let positive = |path: &str, good: bool| {
            if good { Ok(()) } else { Err(Error::setting(format!("solver.{path}"), "must be above 0")) }
        };
        match *self {
            Solver::Exact { sweeps, tolerance } => {
                positive("sweeps", sweeps > 0)?;
                if tolerance >= 0.0 { Ok(()) } else { Err(Error::setting("solver.tolerance", "must not be negative")) }
            }
            Solver::DoublyStochastic { classes, per_class, step, decay, .. } => {
                positive("classes", classes > 0)?;
                positive("per_class", per_class > 0)?;
                positive("step", step.is_none_or(|s| s > 0.0 && s.is_finite()))?;
                if decay >= 0.0 { Ok(()) } else { Err(Error::setting("solver.decay", "must not be negative")) }
            }
        }
    }

    /// What [`Solution::sweeps`] counts: `sweeps` or `iterations`.
    pub fn unit(&self) -> &'static str {
        match self {
            Solver::Exact { .. } => "sweeps",
            Solver::DoublyStochastic { .. } => "iterations",
        }
    }

    /// Solves from `start`; random draws depend only on seed and round.
    pub fn solve(&self, problem: &WeightProblem, start: &[f64], seed: u64, round: u64) -> Solution {
        let rng = rng::stream(seed, "weights", round, 0);
        match *self {
            Solver::Exact { sweeps, tolerance } => exact::solve(problem, start, sweeps, tolerance, rng),
            Solver::DoublyStochastic { classes, per_class, step, decay, iterations } => {
                let samples = start.len();
                let mean_size = samples as f64 / problem.classes.count().max(1) as f64;
                let iterations = iterations.unwrap_or(PASSES * samples);
                let sampling = Sampling { classes, per_class, step: step.unwrap_or(mean_size), decay, iterations };
                let weights = doubly_stochastic::solve(problem, start, &sampling, rng);
                Solution { weights, sweeps: iterations }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_name_selects_the_solver_and_defaults_are_filled_in() {
        assert_eq!(from_value::<Solver>(json!({ "name": "exact" })).unwrap(), Solver::default());
        let sampled: Solver = from_value(json!({ "name": "doubly_stochastic", "per_class": 2 })).unwrap();
        let wanted = Solver::DoublyStochastic { classes: 16, per_class: 2, step: None, decay: 1.0, iterations: None };
        assert_eq!(sampled, wanted);
        assert!(from_value::<Solver>(json!({ "name": "exact", "step": 1.0 })).is_err());
    }

    #[test]
    fn invalid_solver_settings_are_refused_with_their_name() {
        let refused = |table| from_value::<Solver>(table).unwrap().check().unwrap_err().to_string();
        assert!(refused(json!({ "name": "exact", "sweeps": 0 })).contains("solver.sweeps"));
        assert!(refused(json!({ "name": "doubly_stochastic", "step": -1.0 })).contains("solver.step"));
        assert!(refused(json!({ "name": "doubly_stochastic", "per_class": 0 })).contains("solver.per_class"));
    }
}
