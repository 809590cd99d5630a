//! JSON: everything in a report, for other programs.

use crate::agreement::Condition;
use crate::{Comparison, Summary};
use serde_json::{Value, json};

/// The numbers, the runs behind them with their conditions, and skipped folders.
pub fn json(comparison: &Comparison, summary: &Summary) -> Value {
    let run = |run: &crate::ReportedRun| {
        json!({
            "folder": run.folder,
            "method": run.method,
            "case": (!run.case.is_empty()).then_some(&run.case),
            "seed": run.seed(),
            "recipe_hash": run.result.recipe_hash,
            "conditions": run.result.conditions,
            "batches": run.result.batches,
            "evaluation": Condition::Evaluation.of(run),
            "epochs": run.result.epochs,
            "seconds": run.result.seconds,
        })
    };
    json!({
        "format": "curricle-report",
        "version": 1,
        "metrics": summary.metrics,
        "against": summary.against,
        "test": summary.test,
        "rows": summary.rows,
        "caveats": summary.caveats,
        "disagreements": comparison.disagreements,
        "left_out": comparison.skipped,
        "runs": comparison.runs.iter().map(run).collect::<Vec<_>>(),
    })
}
