//! The sample weights of an audit: those of the run, or computed if it has none.

use crate::call::call;
use crate::data::Split;
use crate::last_words::running;
use crate::run::FinishedRun;
use crate::train::{Declared, check_weights};
use crate::{Error, Result};
use curricle_record as record;
use curricle_record::samples::SampleTable;
use curricle_sdk::{ComponentKind, LossInfo, Round, Shape, WeightUpdate};
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
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
    let mut table = columns(&run.folder.read_samples()?, split)?;
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
    let declared = call(running(ComponentKind::Weights, scheme_name), &[], || {
        Declared::of_scheme(&*scheme, &shape, recipe.seed, embeddings.device())
    })
    .map_err(failed)?;
    let ones = vec![1.0; split.len()];
    let loss = LossInfo { name: &recipe.loss.name, settings: &recipe.loss.settings };
    let round = Round {
        round: LATE_ROUND,
        rounds: LATE_ROUND,
        seed: recipe.seed,
        embeddings: Some(embeddings),
        ..Round::new(&split.labels, &ones, &declared.tensors, loss)
    };
    let lent = [("embeddings", embeddings)];
    let running = running(ComponentKind::Weights, scheme_name);
    let update = call(running, &lent, || scheme.update(&round)).map_err(failed)?;
    check_weights(&update, split.len()).map_err(|message| failed(curricle_sdk::Error::other(message)))?;
    Ok(update)
}

/// Columns of numbers in the run's `samples.csv`, whose rows must be those of `split`.
fn columns(table: &SampleTable, split: &Split) -> Result<HashMap<String, Vec<f64>>, record::Error> {
    let (paths, labels) = (table.text("path")?, table.text("label")?);
    let is_same = |row: usize| {
        row < split.len()
            && paths[row] == split.paths[row]
            && labels[row] == split.class_names[split.labels[row] as usize]
    };
    if let Some(row) = (0..table.len()).find(|row| !is_same(*row)) {
        return Err(table.wrong(format!("line {} belongs to other data", row + 2)));
    }
    if table.len() != split.len() {
        let (found, wanted) = (table.len(), split.len());
        return Err(table.wrong(format!("samples listed: {found}, but the training set has {wanted}")));
    }
    let wanted = ["weight", "xi_pos", "xi_neg"].into_iter().filter(|name| table.has(name));
    wanted.map(|name| Ok((name.to_string(), table.numbers(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split::numbered;

    #[test]
    fn columns_are_read_and_other_data_is_refused() {
        let split = numbered(&[0, 1]);
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("samples.csv");
            std::fs::write(&path, text).unwrap();
            columns(&SampleTable::read(&path).unwrap(), &split).map_err(|error| error.to_string())
        };
        let text = "sample,path,label,weight,xi_pos\n0,folder/0.jpg,class 0,1,0.5\n1,folder/1.jpg,class 1,0.25,2\n";
        let good = read(text).unwrap();
        assert_eq!((&good["weight"], &good["xi_pos"]), (&vec![1.0, 0.25], &vec![0.5, 2.0]));
        assert!(!good.contains_key("xi_neg"));
        for (changed, message) in [
            (text.replace("folder/1", "folder/2"), "line 3 belongs to other data"),
            (text.replace("class 1", "class 0"), "line 3 belongs to other data"),
            (text.replace("0.25", "much"), "line 3: `weight` is not a number"),
            (text.replace("path", "file"), "has no column `path`"),
            (text.lines().take(2).collect::<Vec<_>>().join("\n"), "samples listed: 1, but the training set has 2"),
        ] {
            let found = read(&changed).unwrap_err();
            assert!(found.contains(&format!("{message}; if the file")), "{found}");
        }
    }
}
