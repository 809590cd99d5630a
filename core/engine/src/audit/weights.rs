//! The sample weights of an audit: those of the run, or computed if it has none.

use crate::data::Split;
use crate::run::FinishedRun;
use crate::train::check_weights;
use crate::{Error, Result};
use curricle_sdk::{ComponentKind, LossInfo, Round, Shape, WeightUpdate, guard};
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use tch::Tensor;

/// A round at which the schedule of λ has long reached its end.
const LATE_ROUND: u64 = 1000;

/// Where weights come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum WeightSource {
    /// The run's weight scheme.
    Run {
        /// Its name.
        scheme: String,
    },
    /// Computed for the audit, because the run used uniform weights.
    Computed {
        /// The scheme that computed them.
        scheme: String,
    },
}

impl WeightSource {
    /// A description for users.
    pub fn describe(&self) -> String {
        match self {
            Self::Run { scheme } => format!("weights of `{scheme}` after the last epoch"),
            Self::Computed { scheme } => {
                format!("the run gave every sample the same weight, so `{scheme}` was applied to its final embeddings")
            }
        }
    }
}

/// The weights of all training samples and the terms ξ± behind them.
#[derive(Debug)]
pub(super) struct AuditWeights {
    pub values: Vec<f64>,
    pub xi_pos: Vec<f64>,
    pub xi_neg: Vec<f64>,
    pub source: WeightSource,
}

/// Reads the run's weights and ξ±, and computes what is missing.
pub(super) fn of_run(run: &FinishedRun, split: &Split, embeddings: &Tensor, scheme_name: &str) -> Result<AuditWeights> {
    let mut table = read(&run.folder.samples(), split)?;
    let recipe = &run.experiment.recipe;
    let uniform = run.experiment.method.weights.is_uniform();
    let found = (table.remove("weight"), table.remove("xi_pos"), table.remove("xi_neg"));
    if let ((Some(values), Some(xi_pos), Some(xi_neg)), false) = (&found, uniform) {
        let source = WeightSource::Run { scheme: recipe.weights.name.clone() };
        return Ok(AuditWeights { values: values.clone(), xi_pos: xi_pos.clone(), xi_neg: xi_neg.clone(), source });
    }
    let update = compute(run, split, embeddings, scheme_name)?;
    let column = |name: &str| {
        let column = update.columns.iter().find(|(other, _)| other == name).map(|(_, values)| values.clone());
        column.ok_or_else(|| Error::Failed(format!("weights `{scheme_name}` returned no `{name}`")))
    };
    let (xi_pos, xi_neg) = (column("xi_pos")?, column("xi_neg")?);
    match found.0 {
        Some(values) if !uniform => Ok(AuditWeights {
            values,
            xi_pos,
            xi_neg,
            source: WeightSource::Run { scheme: recipe.weights.name.clone() },
        }),
        _ => {
            let source = WeightSource::Computed { scheme: scheme_name.into() };
            Ok(AuditWeights { values: update.weights, xi_pos, xi_neg, source })
        }
    }
}

/// One late-round update of the given scheme on the final embeddings.
fn compute(run: &FinishedRun, split: &Split, embeddings: &Tensor, scheme_name: &str) -> Result<WeightUpdate> {
    let failed = |source| Error::Component { kind: ComponentKind::Weights, name: scheme_name.into(), source };
    let recipe = &run.experiment.recipe;
    let scheme = run.experiment.registry.weights(scheme_name, &json!({})).map_err(failed)?;
    let shape = Shape {
        classes: split.class_names.len() as i64,
        samples: split.len() as i64,
        embedding: recipe.embedding.size,
    };
    let declared = crate::train::Declared::create(
        scheme.tensors(&shape),
        recipe.seed,
        ComponentKind::Weights,
        embeddings.device(),
    );
    let round = Round {
        round: LATE_ROUND,
        rounds: LATE_ROUND,
        seed: recipe.seed,
        embeddings: Some(embeddings),
        labels: &split.labels,
        weights: &vec![1.0; split.len()],
        tensors: &declared.tensors,
        loss: LossInfo { name: &recipe.loss.name, settings: &recipe.loss.settings },
        age: None,
    };
    let update = guard(|| scheme.update(&round)).map_err(failed)?;
    check_weights(&update, split.len()).map_err(|message| failed(curricle_sdk::Error::other(message)))?;
    Ok(update)
}

/// The numeric columns of `samples.csv`, whose rows must match those of `split`.
fn read(path: &Path, split: &Split) -> Result<HashMap<String, Vec<f64>>> {
    let text = std::fs::read(path).map_err(Error::file("read", path))?;
    columns(&text, split).map_err(|message| Error::format(path, message))
}

fn columns(text: &[u8], split: &Split) -> Result<HashMap<String, Vec<f64>>, String> {
    let broken = |e: csv::Error| format!("is not a table of samples: {e}");
    let mut reader = csv::Reader::from_reader(text);
    let titles = reader.headers().map_err(broken)?.clone();
    let place = |name: &str| titles.iter().position(|title| title == name);
    let (path, label) = match (place("path"), place("label")) {
        (Some(path), Some(label)) => (path, label),
        _ => return Err("has no columns `path` and `label`".into()),
    };
    let wanted: Vec<_> = ["weight", "xi_pos", "xi_neg"].into_iter().filter_map(|n| Some((n, place(n)?))).collect();
    let mut columns: HashMap<String, Vec<f64>> =
        wanted.iter().map(|(name, _)| (name.to_string(), Vec::new())).collect();
    let mut rows = 0;
    for (row, record) in reader.records().enumerate() {
        let record = record.map_err(broken)?;
        rows += 1;
        let fits = row < split.len()
            && record[path] == split.paths[row]
            && record[label] == split.class_names[split.labels[row] as usize];
        if !fits {
            return Err(format!("line {} does not match the training set", row + 2));
        }
        for (name, place) in &wanted {
            let value: f64 =
                record[*place].parse().map_err(|_| format!("line {}: `{name}` is not a number", row + 2))?;
            if let Some(column) = columns.get_mut(*name) {
                column.push(value);
            }
        }
    }
    if rows == split.len() {
        Ok(columns)
    } else {
        Err(format!("has rows for only {rows} of {} training samples", split.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;

    #[test]
    fn columns_are_read_and_mismatched_data_is_refused() {
        let split = numbered(&[0, 1]);
        let text = "sample,path,label,weight,xi_pos\n0,folder/0.jpg,class 0,1,0.5\n1,folder/1.jpg,class 1,0.25,2\n";
        let read = columns(text.as_bytes(), &split).unwrap();
        assert_eq!((&read["weight"], &read["xi_pos"]), (&vec![1.0, 0.25], &vec![0.5, 2.0]));
        assert!(!read.contains_key("xi_neg"));
        for (changed, said) in [
            (text.replace("folder/1", "folder/2"), "line 3 does not match the training set"),
            (text.replace("class 1", "class 0"), "line 3 does not match the training set"),
            (text.replace("0.25", "much"), "line 3: `weight` is not a number"),
            (text.replace("path", "file"), "has no columns `path` and `label`"),
            (text.lines().take(2).collect::<Vec<_>>().join("\n"), "has rows for only 1 of 2 training samples"),
        ] {
            assert_eq!(columns(changed.as_bytes(), &split).unwrap_err(), said);
        }
    }
}
