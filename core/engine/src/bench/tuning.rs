//! Chooses the settings of final runs from the trials of a search.

use super::state::{folder_of, state_of};
use crate::{Error, Result};
use curricle_recipe::{Plan, Search, Trial};
use curricle_record::files;
use curricle_record::{RunState, StateName};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::path::{Path, PathBuf};

/// Version of the layout of `tune.json`.
const FORMAT: u32 = 1;

/// All searches of a recipe: their trials, the results, and the chosen settings.
#[derive(Debug, Clone, Serialize)]
pub struct TuneRecord {
    /// Version of the layout of this file.
    pub format: u32,
    /// The recipe's name.
    pub name: String,
    /// One per method and case whose settings are searched.
    pub searches: Vec<SearchRecord>,
}

/// One search.
#[derive(Debug, Clone, Serialize)]
pub struct SearchRecord {
    /// The method.
    pub method: String,
    /// The case, if there are several.
    pub case: Option<String>,
    /// The metric to maximise, measured on the validation classes.
    pub metric: String,
    /// Fraction of the training classes set aside for validation.
    pub validation_share: f64,
    /// The seeds of the trials.
    pub seeds: Vec<u64>,
    /// The chosen settings by dotted path; absent until all trials have ended, or if all failed.
    pub chosen: Option<Map<String, Json>>,
    /// The trials.
    pub trials: Vec<TrialRecord>,
}

/// One trial.
#[derive(Debug, Clone, Serialize)]
pub struct TrialRecord {
    /// Its settings by dotted path.
    pub settings: Map<String, Json>,
    /// The metric, averaged over seeds; absent unless all runs of the trial are finished.
    pub value: Option<f64>,
    /// Whether these settings were chosen.
    pub chosen: bool,
    /// Its runs.
    pub runs: Vec<TrialRun>,
}

/// One run of a trial.
#[derive(Debug, Clone, Serialize)]
pub struct TrialRun {
    /// The seed.
    pub seed: u64,
    /// Its state.
    pub state: StateName,
    /// The metric, if it is finished.
    pub value: Option<f64>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// Its folder.
    pub folder: PathBuf,
}

/// Reads the states of all trials, sets the chosen settings on the final runs of finished searches,
/// and returns the record. A search whose trials all failed leaves its final runs waiting.
pub fn settle(plan: &mut Plan, out: &Path) -> Result<TuneRecord> {
    let mut searches = Vec::new();
    for index in 0..plan.searches.len() {
        let mut record = examine(&plan.searches[index], out)?;
        if let Some(best) = choose(&record) {
            record.trials[best].chosen = true;
            record.chosen = Some(record.trials[best].settings.clone());
            plan.settle(index, best)?;
        }
        searches.push(record);
    }
    Ok(TuneRecord { format: FORMAT, name: plan.name.clone(), searches })
}

impl TuneRecord {
    /// Writes `tune.json` to the folder `out/<recipe name>`.
    pub fn save(&self, out: &Path) -> Result<PathBuf> {
        let folder = out.join(&self.name);
        std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let path = folder.join("tune.json");
        files::write_json(&path, self)?;
        Ok(path)
    }
}

impl SearchRecord {
    /// Whether every trial has finished or failed.
    pub fn is_over(&self) -> bool {
        self.trials
            .iter()
            .flat_map(|trial| &trial.runs)
            .all(|run| matches!(run.state, StateName::Finished | StateName::Failed))
    }
}

fn examine(search: &Search, out: &Path) -> Result<SearchRecord> {
    let trials: Vec<_> =
        search.trials.iter().map(|trial| examine_trial(trial, &search.metric, out)).collect::<Result<_>>()?;
    Ok(SearchRecord {
        method: search.method.clone(),
        case: search.case.clone(),
        metric: search.metric.clone(),
        validation_share: search.trials.first().map_or(0.0, |trial| trial.resolved.recipe.eval.validation_share),
        seeds: trials.first().into_iter().flat_map(|trial| &trial.runs).map(|run| run.seed).collect(),
        chosen: None,
        trials,
    })
}

fn examine_trial(trial: &Trial, metric: &str, out: &Path) -> Result<TrialRecord> {
    let mut runs = Vec::new();
    for run in &trial.runs {
        let state = state_of(run, out)?;
        let scalars = state.result().map(|result| result.trained.scalars()).unwrap_or_default();
        runs.push(TrialRun {
            seed: run.resolved.recipe.seed,
            state: state.name(),
            value: scalars.into_iter().find(|(name, _)| name == metric).map(|(_, value)| value),
            error: match state {
                RunState::Failed(message) => Some(message),
                _ => None,
            },
            folder: folder_of(run, out).path().into(),
        });
    }
    let values: Option<Vec<f64>> = runs.iter().map(|run| run.value).collect();
    let value = values.filter(|values| !values.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64);
    Ok(TrialRecord { settings: trial.settings.iter().cloned().collect(), value, chosen: false, runs })
}

/// The trial with the highest value, the first one on ties; `None` until all have ended.
fn choose(search: &SearchRecord) -> Option<usize> {
    if !search.is_over() {
        return None;
    }
    let mut best: Option<(usize, f64)> = None;
    for (index, trial) in search.trials.iter().enumerate() {
        if let Some(value) = trial.value.filter(|value| best.is_none_or(|(_, highest)| *value > highest)) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(trials: &[(StateName, Option<f64>)]) -> SearchRecord {
        let trial = |(state, value): &(StateName, Option<f64>)| TrialRecord {
            settings: Map::new(),
            value: *value,
            chosen: false,
            runs: vec![TrialRun { seed: 0, state: *state, value: *value, error: None, folder: PathBuf::new() }],
        };
        SearchRecord {
            method: "ms".into(),
            case: None,
            metric: "recall@1".into(),
            validation_share: 0.2,
            seeds: vec![0],
            chosen: None,
            trials: trials.iter().map(trial).collect(),
        }
    }

    #[test]
    fn the_best_trial_is_chosen_once_all_have_ended_and_failed_ones_are_ignored() {
        let finished = |value| (StateName::Finished, Some(value));
        assert_eq!(choose(&record(&[finished(0.1), finished(0.7), finished(0.7)])), Some(1), "the first one on ties");
        assert_eq!(choose(&record(&[(StateName::Failed, None), finished(0.1)])), Some(1));
        assert_eq!(choose(&record(&[finished(0.1), (StateName::Interrupted, None)])), None);
        assert_eq!(choose(&record(&[(StateName::Failed, None)])), None);
    }
}
