//! The conformance suite: checks that a component fulfils the contracts of `curricle-sdk`.
//!
//! The same suite serves built-in and plugin components. Every check is an ordinary function from a
//! [`Subject`] to a [`Verdict`]; each file holds the checks of one concern.

mod batches;
mod device;
mod edges;
mod gradient;
mod invariance;
mod leaks;
mod loss;
mod sampler;
mod settings;
mod weights;

use crate::call::call;
use crate::last_words::running;
use crate::registry::RegisteredComponent;
use curricle_recipe::settings_of;
use curricle_sdk::{Component, ComponentKind};
use serde::Serialize;
use serde_json::Value;
use tch::Device;

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "lowercase")]
pub enum Verdict {
    /// The check passed.
    Passed,
    /// The check failed, with the reason.
    Failed(String),
    /// The check was skipped, with the reason.
    Skipped(String),
}

/// One line of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Name of the check.
    pub check: &'static str,
    /// Its outcome.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// All checks of one component.
#[derive(Debug, Clone, Serialize)]
pub struct ConformanceReport {
    /// `loss`, `sampler` or `weights`.
    pub kind: &'static str,
    /// The component's name.
    pub name: &'static str,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

impl ConformanceReport {
    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.verdict, Verdict::Failed(_)))
    }
}

/// The component under test.
pub struct Subject {
    /// The component.
    pub component: Component,
    /// Valid settings, with all defaults filled in.
    pub settings: Value,
    /// The device for the checks of device and synchronisation.
    pub device: Device,
}

type CheckFn = fn(&Subject) -> Result<(), NotPassed>;

/// Why a check did not pass.
enum NotPassed {
    Failed(String),
    Skipped(String),
}

impl NotPassed {
    /// A failure with the circumstances before its reason.
    fn context<T>(self, circumstances: &str) -> Result<T, Self> {
        Err(match self {
            Self::Failed(reason) => Self::Failed(format!("{circumstances}: {reason}")),
            skipped @ Self::Skipped(_) => skipped,
        })
    }
}

impl From<curricle_sdk::Error> for NotPassed {
    fn from(error: curricle_sdk::Error) -> Self {
        NotPassed::Failed(error.to_string())
    }
}

fn fail<T>(reason: impl Into<String>) -> Result<T, NotPassed> {
    Err(NotPassed::Failed(reason.into()))
}

fn skip<T>(reason: impl Into<String>) -> Result<T, NotPassed> {
    Err(NotPassed::Skipped(reason.into()))
}

/// Checks a component with the defaults of its schema, overridden by settings given as `key=value`.
pub fn check(component: &Component, sets: &[String], device: Device) -> ConformanceReport {
    let mut checks = Vec::new();
    let mut add = |check, verdict| checks.push(Check { check, verdict });
    match settings_of(&RegisteredComponent::built_in(*component).schema(), sets) {
        Err(problems) => {
            let reasons: Vec<_> = problems.iter().map(ToString::to_string).collect();
            add("settings", Verdict::Failed(reasons.join("; ")));
        }
        Ok(settings) => {
            let subject = Subject { component: *component, settings, device };
            for (name, function) in suite(component.kind) {
                add(name, verdict(function, &subject));
            }
        }
    }
    ConformanceReport { kind: component.kind.as_str(), name: component.name, checks }
}

fn verdict(function: CheckFn, subject: &Subject) -> Verdict {
    // The checks' own libtorch calls may also panic, on tensors of unexpected shapes, and instances are destroyed.
    match call(running(subject.component.kind, subject.component.name), &[], || Ok(function(subject))) {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(NotPassed::Failed(reason))) => Verdict::Failed(reason),
        Ok(Err(NotPassed::Skipped(reason))) => Verdict::Skipped(reason),
        Err(error) => Verdict::Failed(error.to_string()),
    }
}

/// The names of all checks of a kind, in order.
pub fn names(kind: ComponentKind) -> Vec<&'static str> {
    suite(kind).into_iter().map(|(name, _)| name).collect()
}

fn suite(kind: ComponentKind) -> Vec<(&'static str, CheckFn)> {
    let mut all: Vec<(&'static str, CheckFn)> = vec![
        ("settings", settings::defaults_are_accepted),
        ("schema", settings::schema_describes_every_setting),
        ("wrong types", settings::wrong_types_are_refused),
    ];
    match kind {
        ComponentKind::Loss => all.extend([
            ("value", loss::value_is_as_demanded as CheckFn),
            ("same twice", loss::same_result_twice),
            ("inputs untouched", loss::inputs_are_left_alone),
            ("gradient", gradient::agrees_with_finite_differences),
            ("precision", loss::single_precision_is_near_double),
            ("permutation", invariance::order_of_rows_does_not_matter),
            ("relabelling", invariance::names_of_classes_do_not_matter),
            ("weights of 1", invariance::weights_of_one_change_nothing),
            ("weights of 0", invariance::samples_of_weight_zero_are_absent),
            ("edge batches", edges::edge_batches_give_finite_numbers),
            ("leaks", leaks::loss_leaks_nothing),
            ("device", device::stays_on_the_device),
            ("synchronisation", device::does_not_wait_for_the_device),
        ]),
        ComponentKind::Sampler => all.extend([
            ("batches", sampler::batches_are_usable as CheckFn),
            ("same twice", sampler::same_answer_twice),
            ("inputs untouched", sampler::labels_are_left_alone),
            ("batch size", sampler::batch_size_is_true),
            ("edge data", sampler::edge_data_does_not_panic),
            ("leaks", leaks::sampler_leaks_nothing),
        ]),
        ComponentKind::Weights => all.extend([
            ("weights", weights::weights_are_usable as CheckFn),
            ("same twice", weights::same_answer_twice),
            ("inputs untouched", weights::inputs_are_left_alone),
            ("uniform", weights::uniform_is_true),
            ("precision", weights::double_precision_works),
            ("edge data", weights::edge_data_does_not_panic),
            ("leaks", leaks::weights_leak_nothing),
            ("device", device::scheme_takes_embeddings_on_the_device),
        ]),
    }
    all
}

#[cfg(test)]
mod tests;
