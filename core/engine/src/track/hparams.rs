//! Hyperparameters for TensorBoard's `HParams` tab.
//!
//! Every run writes its settings but no *experiment* message. TensorBoard applies the first experiment
//! it finds to all runs, so the settings of runs with another loss would have no column; without one
//! it collects the columns from all runs. If the runs of a comparison are known in advance,
//! [`write_experiment`] sets the columns.

use super::events::{EventWriter, seconds_since_1970};
use super::summary::{encode, plugin, tagged};
use crate::{Error, Result};
use curricle_record::leaves;
use protobuf::well_known_types;
use serde_json::Value;
use std::path::Path;
use tensorboard_proto::api::{Experiment, HParamInfo, MetricInfo, MetricName, Status};
use tensorboard_proto::plugin_hparams::{HParamsPluginData, SessionEndInfo, SessionStartInfo};
use tensorboard_proto::summary::Summary_Value;

/// The settings of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct HParams {
    /// Identifies runs that differ only in the seed, such as the hash of the recipe without its seed.
    /// TensorBoard shows the mean over a group as one row.
    pub group: String,
    /// Dotted names and plain values (numbers, text, booleans).
    pub params: Vec<(String, Value)>,
}

impl HParams {
    /// The leaves of nested settings, such as a whole recipe: `loss.alpha = 2`. Lists become
    /// text; unset values are omitted.
    pub fn from_settings(group: impl Into<String>, settings: &Value) -> Self {
        Self { group: group.into(), params: leaves(settings) }
    }

    /// Removes a setting or a table of settings, such as `seed`, in which members of the group differ.
    pub fn without(mut self, path: &str) -> Self {
        self.params.retain(|(name, _)| name != path && !name.starts_with(&format!("{path}.")));
        self
    }
}

/// Chooses the columns for the runs below a folder: all settings of all of them, and the metrics
/// with these tags.
pub fn write_experiment(folder: &Path, runs: &[HParams], metrics: &[&str]) -> Result<()> {
    let mut names: Vec<&str> = runs.iter().flat_map(|run| &run.params).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let hparam = |name: &str| {
        let mut info = HParamInfo::new();
        info.set_name(name.into());
        info
    };
    let metric = |tag: &str| {
        let mut name = MetricName::new();
        name.set_tag(tag.into());
        let mut info = MetricInfo::new();
        info.set_name(name);
        info
    };
    let mut experiment = Experiment::new();
    experiment.set_time_created_secs(seconds_since_1970());
    experiment.set_hparam_infos(names.into_iter().map(hparam).collect());
    experiment.set_metric_infos(metrics.iter().copied().map(metric).collect());
    let mut data = HParamsPluginData::new();
    data.set_experiment(experiment);
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    super::events::remove_all(folder)?;
    EventWriter::create(folder, None).write(0, vec![summary("_hparams_/experiment", &data)?]);
    Ok(())
}

/// The message that a run with these settings started.
pub(super) fn start(hparams: &HParams) -> Result<Summary_Value> {
    let mut info = SessionStartInfo::new();
    info.set_hparams(hparams.params.iter().map(|(name, value)| (name.clone(), protobuf_value(value))).collect());
    info.set_group_name(hparams.group.clone());
    info.set_start_time_secs(seconds_since_1970());
    let mut data = HParamsPluginData::new();
    data.set_session_start_info(info);
    summary("_hparams_/session_start_info", &data)
}

/// The message that the run is finished.
pub(super) fn finished() -> Result<Summary_Value> {
    let mut info = SessionEndInfo::new();
    info.set_status(Status::STATUS_SUCCESS);
    info.set_end_time_secs(seconds_since_1970());
    let mut data = HParamsPluginData::new();
    data.set_session_end_info(info);
    summary("_hparams_/session_end_info", &data)
}

fn summary(tag: &str, data: &HParamsPluginData) -> Result<Summary_Value> {
    let mut summary = tagged(tag);
    summary.set_metadata(plugin("hparams", encode(data)?));
    Ok(summary)
}

fn protobuf_value(value: &Value) -> well_known_types::Value {
    let mut result = well_known_types::Value::new();
    match value {
        Value::Bool(b) => result.set_bool_value(*b),
        Value::Number(n) => result.set_number_value(n.as_f64().unwrap_or(f64::NAN)),
        Value::String(s) => result.set_string_value(s.clone()),
        other => result.set_string_value(other.to_string()),
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_become_dotted_names() {
        let recipe = json!({
            "seed": 3, "noise": null, "eval": {"recall_at": [1, 2]},
            "loss": {"name": "ms", "alpha": 2.0}, "track": {"images": true},
        });
        let hparams = HParams::from_settings("abc", &recipe).without("seed").without("track");
        let expected = [("eval.recall_at", json!("[1,2]")), ("loss.name", json!("ms")), ("loss.alpha", json!(2.0))];
        assert_eq!(hparams.params, expected.map(|(name, value)| (name.to_string(), value)));
    }
}
