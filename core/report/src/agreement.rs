//! Checks that runs were made under the same conditions, so that they can be compared.
//!
//! Between cases anything may differ. Within a case, repetitions of a method share the recipe except
//! for the seed, and all methods of a seed share data, labels, initial parameters, batches and
//! evaluated samples.

use crate::ReportedRun;
use crate::difference::{Difference, differences};
use serde::Serialize;
use std::fmt::Write;

/// A condition of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The recipe without its seed; between repetitions.
    Recipe,
    /// Samples and their split into training and test set.
    Data,
    /// The training labels, including flipped ones, and which samples are excluded.
    Labels,
    /// The parameters of the network before training.
    Initialisation,
    /// Which samples make up each batch.
    Batches,
    /// The samples on which the model is evaluated.
    Evaluation,
}

impl Condition {
    /// The conditions that all methods of a seed must share.
    const BETWEEN_METHODS: [Condition; 5] =
        [Condition::Data, Condition::Labels, Condition::Initialisation, Condition::Batches, Condition::Evaluation];

    /// Its name in messages.
    pub fn title(self) -> &'static str {
        match self {
            Condition::Recipe => "recipes of repetitions",
            Condition::Data => "data or split",
            Condition::Labels => "training labels",
            Condition::Initialisation => "initial parameters",
            Condition::Batches => "batches",
            Condition::Evaluation => "evaluated samples",
        }
    }

    /// Its value in a run: equal text means equal conditions.
    pub fn of(self, run: &ReportedRun) -> String {
        let result = &run.result;
        match self {
            Condition::Recipe => result.recipe_hash.clone(),
            Condition::Data => result.conditions.data.clone(),
            Condition::Labels => result.conditions.labels.clone(),
            Condition::Initialisation => result.conditions.initialisation.clone(),
            Condition::Batches => result.batches.clone(),
            Condition::Evaluation => run.word("eval.on").unwrap_or("test").into(),
        }
    }

    /// Whether a setting can affect it, judged by the setting's table.
    fn decided_by(self, setting: &str) -> bool {
        let tables: &[&str] = match self {
            Condition::Recipe => return true,
            Condition::Data => &["data", "eval"],
            Condition::Labels => &["data", "noise"],
            Condition::Initialisation => &["data", "backbone", "embedding"],
            Condition::Batches => &["data", "noise", "sampler", "train"],
            Condition::Evaluation => &["eval"],
        };
        tables.iter().any(|table| setting.starts_with(&format!("{table}.")))
    }
}

/// Runs that should share a condition but do not.
#[derive(Debug, Clone, Serialize)]
pub struct Disagreement {
    /// The condition.
    pub condition: Condition,
    /// The case; empty if it has no name.
    pub case: String,
    /// The method, if its repetitions differ.
    pub method: Option<String>,
    /// The seed, if methods differ.
    pub seed: Option<u64>,
    /// The values, each with the runs that have it.
    pub values: Vec<(String, Vec<String>)>,
    /// Settings that may explain it.
    pub settings: Vec<Difference>,
}

impl Disagreement {
    /// One sentence, for captions.
    pub fn summary(&self) -> String {
        let mut text = format!("{} differ", self.condition.title());
        if !self.case.is_empty() {
            let _ = write!(text, " in case `{}`", self.case);
        }
        if let Some(method) = &self.method {
            let _ = write!(text, " for `{method}`");
        }
        if let Some(seed) = self.seed {
            let _ = write!(text, ", seed {seed}");
        }
        text
    }
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// Runs listed for each value; the others are counted.
        const NAMED: usize = 3;
        writeln!(f, "{}:", self.summary())?;
        for (value, runs) in &self.values {
            writeln!(f, "  {}", short(value))?;
            for run in runs.iter().take(NAMED) {
                writeln!(f, "    {run}")?;
            }
            if runs.len() > NAMED {
                writeln!(f, "    and {} more", runs.len() - NAMED)?;
            }
        }
        for difference in &self.settings {
            let values = difference.values.iter().map(|(value, who)| format!("{value} ({})", who.join(", ")));
            writeln!(f, "  {} = {}", difference.setting, values.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

/// A hash shortened to 12 characters; other values unchanged.
pub fn short(value: &str) -> &str {
    if value.len() > 16 { value.get(..12).unwrap_or(value) } else { value }
}

/// All conditions that runs of a case should share but do not.
pub(crate) fn disagreements(case: &str, runs: &[&ReportedRun]) -> Vec<Disagreement> {
    let mut found = Vec::new();
    let mut methods: Vec<&str> = runs.iter().map(|run| run.method.as_str()).collect();
    methods.dedup();
    for method in methods {
        let repetitions: Vec<&ReportedRun> = runs.iter().copied().filter(|run| run.method == method).collect();
        found.extend(disagreement(Condition::Recipe, case, &repetitions));
    }
    let mut seeds: Vec<u64> = runs.iter().map(|run| run.seed()).collect();
    seeds.sort_unstable();
    seeds.dedup();
    for seed in seeds {
        let together: Vec<&ReportedRun> = runs.iter().copied().filter(|run| run.seed() == seed).collect();
        found.extend(Condition::BETWEEN_METHODS.into_iter().filter_map(|c| disagreement(c, case, &together)));
    }
    found
}

fn disagreement(condition: Condition, case: &str, runs: &[&ReportedRun]) -> Option<Disagreement> {
    let between_repetitions = condition == Condition::Recipe;
    let mut values: Vec<(String, Vec<&ReportedRun>)> = Vec::new();
    for run in runs {
        let value = condition.of(run);
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, holders)) => holders.push(run),
            None => values.push((value, vec![run])),
        }
    }
    if values.len() < 2 {
        return None;
    }
    let name =
        |run: &ReportedRun| if between_repetitions { format!("seed {}", run.seed()) } else { run.method.clone() };
    let names: Vec<String> = runs.iter().map(|run| name(run)).collect();
    let recipes: Vec<_> = runs.iter().zip(&names).map(|(run, name)| (name.as_str(), &run.settings)).collect();
    let settings = differences(&recipes).into_iter().filter(|d| condition.decided_by(&d.setting)).collect();
    let described = |run: &&ReportedRun| format!("{}, seed {}: {}", run.method, run.seed(), run.folder.display());
    Some(Disagreement {
        condition,
        case: case.into(),
        method: between_repetitions.then(|| runs[0].method.clone()),
        seed: (!between_repetitions).then(|| runs[0].seed()),
        values: values.into_iter().map(|(value, runs)| (value, runs.iter().map(described).collect())).collect(),
        settings,
    })
}
