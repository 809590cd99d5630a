//! What the runs of a bench came to, over seeds.

use crate::recipe::SweepRun;
use crate::run::RunResult;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Mean and spread of a number over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; 0 for one run.
    pub std: f64,
    /// How many runs.
    pub runs: usize,
}

impl Spread {
    /// Mean and spread of some numbers; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        if runs == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = if runs > 1 { (squares / (runs - 1) as f64).sqrt() } else { 0.0 };
        Some(Self { mean, std, runs })
    }
}

/// All seeds of one method in one case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The method.
    pub method: String,
    /// The case, if the bench has several.
    pub case: Option<String>,
    /// Final metrics, and `auroc` of the weights as a detector of wrong labels, by name.
    pub values: BTreeMap<String, Spread>,
    /// Seconds of a run.
    pub seconds: Option<Spread>,
    /// Runs that failed or were not reached.
    pub missing: usize,
}

/// One row for each method and case, in the order of the plan; first the untrained model, which
/// does not depend on the method. `results` are by place in the plan.
pub fn summarise(planned: &[SweepRun], results: &BTreeMap<usize, &RunResult>) -> Vec<Row> {
    let mut groups: Vec<(&str, Option<&str>, Vec<usize>)> = Vec::new();
    let mut places: HashMap<(&str, Option<&str>), usize> = HashMap::new();
    for (index, run) in planned.iter().enumerate() {
        let key = (run.method.as_str(), run.case.as_deref());
        let place = *places.entry(key).or_insert_with(|| {
            groups.push((key.0, key.1, Vec::new()));
            groups.len() - 1
        });
        groups[place].2.push(index);
    }
    let mut rows = untrained(planned, results);
    for (method, case, members) in groups {
        let done: Vec<_> = members.iter().filter_map(|index| results.get(index).copied()).collect();
        let mut values = collect(done.iter().map(|run| run.trained.scalars()));
        let auroc = |run: &&RunResult| run.weighting.iter().find(|(name, _)| name == "auroc").map(|(_, value)| *value);
        let auroc: Vec<f64> = done.iter().filter_map(auroc).collect();
        values.extend(Spread::of(&auroc).map(|spread| ("auroc".to_string(), spread)));
        let seconds: Vec<f64> = done.iter().map(|run| run.seconds).collect();
        rows.push(Row {
            method: method.into(),
            case: case.map(Into::into),
            values,
            seconds: Spread::of(&seconds),
            missing: members.len() - done.len(),
        });
    }
    rows
}

/// The untrained model over seeds. Every method starts from the same one, so one run per seed is
/// enough; cases share a row if they do not change it either.
fn untrained(planned: &[SweepRun], results: &BTreeMap<usize, &RunResult>) -> Vec<Row> {
    let mut cases: Vec<(Option<&str>, BTreeMap<u64, &RunResult>)> = Vec::new();
    for (index, result) in results {
        let run = &planned[*index];
        let (case, seed) = (run.case.as_deref(), run.resolved.recipe.seed);
        let place = cases.iter().position(|(other, _)| *other == case).unwrap_or_else(|| {
            cases.push((case, BTreeMap::new()));
            cases.len() - 1
        });
        cases[place].1.entry(seed).or_insert(result);
    }
    let row = |case: Option<&str>, by_seed: &BTreeMap<u64, &RunResult>| {
        let values = collect(by_seed.values().map(|run| run.untrained.scalars()));
        let case = case.map(Into::into);
        (!values.is_empty()).then(|| Row { method: "untrained".into(), case, values, seconds: None, missing: 0 })
    };
    let mut all: BTreeMap<u64, &RunResult> = BTreeMap::new();
    let mut shared = true;
    for (seed, result) in cases.iter().flat_map(|(_, by_seed)| by_seed) {
        let first = all.entry(*seed).or_insert(result);
        shared &= first.untrained == result.untrained;
    }
    match shared {
        true => row(None, &all).into_iter().collect(),
        false => cases.iter().filter_map(|(case, by_seed)| row(*case, by_seed)).collect(),
    }
}

fn collect(runs: impl Iterator<Item = Vec<(String, f64)>>) -> BTreeMap<String, Spread> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.flatten() {
        values.entry(name).or_default().push(value);
    }
    values.into_iter().filter_map(|(name, values)| Some((name, Spread::of(&values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_the_sample_standard_deviation() {
        let spread = Spread::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.mean, spread.std, spread.runs), (2.0, 1.0, 3));
        assert_eq!(Spread::of(&[5.0]).unwrap().std, 0.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
