//! Output of `curricle bench`.

use super::{Args, Launcher, jobs, remote};
use crate::error::Result;
use crate::output;
use curricle_engine::bench::{RunStatus, SearchRecord, TuneRecord};
use curricle_recipe::Plan;
use curricle_record::RunResult;
use curricle_record::{RunFolder, StateName};
use curricle_report::{Comparison, Measure, Summary, SummaryOptions, format, table};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Prints all runs and their states, for `--dry-run`.
pub(super) fn list(plan: &Plan, statuses: &[RunStatus], args: &Args) -> Result<()> {
    if args.json {
        let one = |((_, run), standing): ((bool, _), &RunStatus)| {
            let run: &curricle_recipe::SweepRun = run;
            let mut json = serde_json::to_value(standing).unwrap_or_default();
            json["hash"] = run.resolved.hash().into();
            json["recipe"] = serde_json::to_value(&run.resolved.recipe).unwrap_or_default();
            json
        };
        return output::json(&jobs(plan).into_iter().zip(statuses).map(one).collect::<Vec<_>>());
    }
    if args.launcher == Launcher::Slurm {
        return output::print(&remote::preview(args, plan)?);
    }
    let mut table = output::table(&["method", "case", "seed", "loss", "weights", "hash", "state"]);
    for ((trial, run), standing) in jobs(plan).into_iter().zip(statuses) {
        let recipe = &run.resolved.recipe;
        let method = format!("{}{}", if trial { "trial " } else { "" }, run.method);
        let hash = if run.search.is_some() { "-".into() } else { run.resolved.short_hash() };
        let case = run.case.clone().unwrap_or_default();
        let (seed, state) = (recipe.seed.to_string(), standing.state.to_string());
        table.add_row([&method, &case, &seed, &recipe.loss.name, &recipe.weights.name, &hash, &state]);
    }
    output::print(&format!("{table}\n{}\n", counts(statuses)))
}

/// Prints the state of every run, for `--status`.
pub(super) fn status(statuses: &[RunStatus], as_json: bool) -> Result<()> {
    if as_json {
        let count = |state: StateName| statuses.iter().filter(|standing| standing.state == state).count();
        let counts: Map<String, Value> =
            StateName::ALL.iter().map(|state| (state.to_string(), count(*state).into())).collect();
        return output::json(&json!({ "counts": counts, "runs": statuses }));
    }
    let mut table = output::table(&["method", "case", "seed", "state", "epoch", "R@1", "folder"]);
    for standing in statuses {
        let method = format!("{}{}", if standing.trial { "trial " } else { "" }, standing.method);
        let epoch = standing.epoch.map_or_else(String::new, |epoch| format!("{epoch}/{}", standing.epochs));
        let recall = standing.recall_at_1.map_or_else(String::new, |recall| format!("{:.2}", 100.0 * recall));
        let folder = standing.folder.as_ref().map_or_else(String::new, |folder| folder.display().to_string());
        let case = standing.case.clone().unwrap_or_default();
        table.add_row([method, case, standing.seed.to_string(), standing.state.to_string(), epoch, recall, folder]);
    }
    let mut text = format!("{table}\n{}\n", counts(statuses));
    for standing in statuses {
        if let (Some(error), Some(folder)) = (&standing.error, &standing.folder) {
            let first = error.lines().next().unwrap_or_default();
            text.push_str(&format!("failed: {first}; see `{}`\n", RunFolder::new(folder).log().display()));
        }
    }
    output::print(&text)
}

fn counts(statuses: &[RunStatus]) -> String {
    let count = |state: &StateName| {
        let count = statuses.iter().filter(|standing| standing.state == *state).count();
        (count > 0).then(|| format!("{count} {state}"))
    };
    format!("{}: {}", runs(statuses.len()), StateName::ALL.iter().filter_map(count).collect::<Vec<_>>().join(", "))
}

/// Prints the trials of searches, then the comparison of the runs as in `curricle report`.
pub(super) fn comparison(
    plan: &Plan,
    results: &BTreeMap<usize, &RunResult>,
    errors: &BTreeMap<usize, String>,
    record: Option<&TuneRecord>,
    as_json: bool,
) -> Result<()> {
    let results_of = plan.runs.iter().enumerate().map(|(index, run)| (run, results.get(&index).copied().cloned()));
    let compared = Comparison::from_results(results_of);
    let mut metrics = Measure::usual(&compared.runs);
    metrics.extend((!metrics.is_empty()).then(|| "seconds".to_string()));
    let summary = Summary::new(&compared, &SummaryOptions { metrics, ..Default::default() })?;
    let record = record.filter(|record| !record.searches.is_empty());
    if !as_json {
        let searches = record.into_iter().flat_map(|record| &record.searches);
        let searches: String = searches.map(search_table).collect();
        if results.is_empty() {
            return output::print(&searches);
        }
        let tables = format::text(&table::layout("", &compared, &summary), output::styled());
        return output::print(&format!("{searches}{tables}"));
    }
    let one = |(index, of): (usize, &curricle_recipe::SweepRun)| {
        let (result, error) = (results.get(&index), errors.get(&index));
        (result.is_some() || error.is_some()).then(|| {
            let seed = of.resolved.recipe.seed;
            json!({ "method": of.method, "case": of.case, "seed": seed, "result": result, "error": error })
        })
    };
    let runs: Vec<_> = plan.runs.iter().enumerate().filter_map(one).collect();
    let mut json = json!({ "rows": summary.rows, "caveats": summary.caveats, "runs": runs });
    if let Some(record) = record {
        json["tune"] = serde_json::to_value(record).unwrap_or_default();
    }
    output::json(&json)
}

fn search_table(search: &SearchRecord) -> String {
    let case = search.case.as_ref().map_or_else(String::new, |case| format!(" ({case})"));
    let metric = format!("validation {}", search.metric);
    let mut table = output::table(&["trial", &metric, ""]);
    for trial in &search.trials {
        let value = match trial.value {
            Some(value) => format!("{:.2}", 100.0 * value),
            None => trial
                .runs
                .iter()
                .map(|run| run.state)
                .find(|s| *s != StateName::Finished)
                .map_or_else(|| "-".into(), |s| s.to_string()),
        };
        table.add_row([settings(&trial.settings), value, if trial.chosen { "chosen".into() } else { String::new() }]);
    }
    let share = 100.0 * search.validation_share;
    format!("{}{case}, on {share:.0} % of the training classes:\n{table}\n\n", search.method)
}

/// `loss.eta = 2, optimizer.lr = 0.001`
pub(super) fn settings(settings: &Map<String, Value>) -> String {
    settings.iter().map(|(path, value)| format!("{path} = {value}")).collect::<Vec<_>>().join(", ")
}

/// `1 run`, `8 runs`
pub(super) fn runs(count: usize) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}
