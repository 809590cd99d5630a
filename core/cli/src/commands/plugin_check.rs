//! `curricle plugin check`

use super::PythonArgs;
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::device::{self, DeviceChoice};
use curricle_engine::{ComponentOrigin, Registry};
use curricle_engine::{conformance, plugin};
use curricle_sdk::Component;
use std::path::PathBuf;

/// Check components with the conformance suite.
///
/// The suite checks what the SDK requires of a component: settings that agree with their schema,
/// gradients that agree with finite differences, the same result when the batch is reordered or its
/// classes are renamed, weights of 1 that have no effect, samples of weight 0 that are absent, finite
/// results on degenerate batches, no memory leaks, no transfers off the device and no waiting for it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Plugin library or Python file; all its components are checked.
    #[arg(required_unless_present = "builtin", conflicts_with = "builtin")]
    path: Option<PathBuf>,
    /// Check the built-in components instead.
    #[arg(long)]
    builtin: bool,
    /// Check only components with this name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Override a setting of the components, e.g. `--set margin=0.5`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Skip a check, e.g. `--except gradient` for a loss that detaches part of its formula; may be
    /// repeated.
    #[arg(long, value_name = "CHECK")]
    except: Vec<String>,
    /// Device for the checks that need one other than the CPU: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: DeviceChoice,
    #[command(flatten)]
    python: PythonArgs,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints a table with one line per check.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known: Vec<_> = curricle_sdk::ComponentKind::ALL.into_iter().flat_map(conformance::names).collect();
    if let Some(unknown) = args.except.iter().find(|name| !known.contains(&name.as_str())) {
        let mut known = known;
        known.sort_unstable();
        known.dedup();
        return Err(Error::usage(format!("there is no check `{unknown}`; available: `{}`", known.join("`, `"))));
    }
    args.python.apply();
    let mut components = components(args)?;
    if let Some(only) = &args.only {
        components.retain(|component| component.name == only);
        if components.is_empty() {
            return Err(Error::usage(format!("there is no component `{only}`")));
        }
    }
    // Before the first tensor is created: libtorch does not find a CUDA library that is loaded later.
    let device = device::resolve(args.device)?;
    let mut reports: Vec<_> = components.iter().map(|c| conformance::check(c, &args.sets, device)).collect();
    for report in &mut reports {
        report.checks.retain(|check| !args.except.iter().any(|name| name == check.check));
    }
    let failed: usize = reports.iter().map(|report| report.failed().count()).sum();
    if args.json {
        output::json(&reports)?;
    } else {
        output::print(&table(&reports))?;
    }
    match failed {
        0 => Ok(()),
        1 => Err(Error::failed("1 check failed".into())),
        many => Err(Error::failed(format!("{many} checks failed"))),
    }
}

fn components(args: &Args) -> Result<Vec<Component>> {
    match &args.path {
        Some(path) => Ok(plugin::open(path, None)?.components.clone()),
        None => {
            let registry = Registry::built_in();
            Ok(registry
                .iter()
                .filter(|entry| matches!(entry.origin, ComponentOrigin::BuiltIn))
                .map(|entry| entry.component)
                .collect())
        }
    }
}

fn table(reports: &[conformance::ConformanceReport]) -> String {
    let mut text = String::new();
    for report in reports {
        text += &format!("{} `{}`\n", report.kind, report.name);
        for check in &report.checks {
            let (word, reason) = match &check.verdict {
                conformance::Verdict::Passed => ("ok", ""),
                conformance::Verdict::Failed(reason) => ("FAILED", reason.as_str()),
                conformance::Verdict::Skipped(reason) => ("skipped", reason.as_str()),
            };
            text += format!("  {:18}{word:9}{reason}", check.check).trim_end();
            text.push('\n');
        }
    }
    text
}
