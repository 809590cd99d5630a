//! The table of runs in TensorBoard's `HParams` tab.
//!
//! TensorBoard takes the columns from the first *experiment* message it finds, whichever run wrote it, and
//! sorts the columns of settings by name. So every run writes the same message, with four columns whose
//! alphabetical order is also the order to read them in: method, noise, seed, settings. A column for every
//! setting of a recipe would push the metrics off the screen.

use super::events::seconds_since_1970;
use super::summary::{encode, plugin, tagged};
use crate::Result;
use protobuf::well_known_types;
use tensorboard_proto::api::{DataType, Experiment, HParamInfo, MetricInfo, MetricName, Status};
use tensorboard_proto::plugin_hparams::{HParamsPluginData, SessionEndInfo, SessionStartInfo};
use tensorboard_proto::summary::Summary_Value;

/// The columns before the metrics; see above for their order.
const COLUMNS: [&str; 4] = ["method", "noise", "seed", "settings"];

/// The metrics of the table: tag and title.
const METRICS: [(&str, &str); 4] =
    [("eval/recall@1", "Recall@1"), ("eval/map@r", "MAP@R"), ("eval/nmi", "NMI"), ("weights/auroc", "weight AUROC")];

/// The row of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HParams {
    /// The method's name in tables.
    pub method: String,
    /// The label noise, such as `20 % uniform`.
    pub noise: String,
    /// The seed.
    pub seed: u64,
    /// What else distinguishes the run: the name of its case and the settings given as arguments.
    pub settings: String,
}

/// The message that chooses the columns.
pub(super) fn experiment() -> Result<Summary_Value> {
    let hparam = |name: &str| {
        let mut info = HParamInfo::new();
        info.set_name(name.into());
        info.set_field_type(DataType::DATA_TYPE_STRING);
        info
    };
    let metric = |(tag, title): (&str, &str)| {
        let mut name = MetricName::new();
        name.set_tag(tag.into());
        let mut info = MetricInfo::new();
        info.set_name(name);
        info.set_display_name(title.into());
        info
    };
    let mut experiment = Experiment::new();
    experiment.set_hparam_infos(COLUMNS.into_iter().map(hparam).collect());
    experiment.set_metric_infos(METRICS.into_iter().map(metric).collect());
    let mut data = HParamsPluginData::new();
    data.set_experiment(experiment);
    summary("_hparams_/experiment", &data)
}

/// The message that a run started.
pub(super) fn start(hparams: &HParams) -> Result<Summary_Value> {
    // The seed as text too: TensorBoard shows numbers with four decimals.
    let HParams { method, noise, seed, settings } = hparams;
    let values = [method.clone(), noise.clone(), seed.to_string(), settings.clone()].map(|text| {
        let mut value = well_known_types::Value::new();
        value.set_string_value(text);
        value
    });
    let mut info = SessionStartInfo::new();
    info.set_hparams(COLUMNS.map(String::from).into_iter().zip(values).collect());
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
