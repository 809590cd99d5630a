//! `curricle plugin check`

use crate::error::{Error, Result};
use crate::output;
use curricle_engine::device::{self, DeviceChoice};
use curricle_engine::{ComponentOrigin, Registry};
use curricle_engine::{conformance, plugin};
use curricle_sdk::Component;
use std::path::PathBuf;

/// Try components with the conformance suite; fails with the reasons.
///
/// The suite asks whether a component keeps what the SDK demands: settings that agree with their
/// schema, gradients that agree with finite differences, the same result for the same batch in
/// another order or with its classes renamed, weights of 1 as if there were none, finite numbers on
/// the oddest batches, nothing leaked, nothing that leaves the device or waits for it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The library; all its components are tried.
    #[arg(required_unless_present = "builtin", conflicts_with = "builtin")]
    path: Option<PathBuf>,
    /// Try the built-in components instead.
    #[arg(long)]
    builtin: bool,
    /// Only components of this name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// A setting of the components tried, e.g. `--set margin=0.5`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Leave a check out, e.g. `--except gradient` for a loss that detaches part of its formula; may
    /// be repeated.
    #[arg(long, value_name = "CHECK")]
    except: Vec<String>,
    /// Device for the checks that need another one than the CPU: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: DeviceChoice,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints a table with one line for each check.
pub fn run(args: &Args) -> Result<()> {
    let known: Vec<_> = curricle_sdk::Kind::ALL.into_iter().flat_map(conformance::names).collect();
    if let Some(unknown) = args.except.iter().find(|name| !known.contains(&name.as_str())) {
        let mut known = known;
        known.sort_unstable();
        known.dedup();
        return Err(Error::usage(format!("there is no check `{unknown}`; there are: {}", known.join(", "))));
    }
    let mut components = components(args)?;
    if let Some(only) = &args.only {
        components.retain(|component| component.name == only);
        if components.is_empty() {
            return Err(Error::usage(format!("there is no component `{only}` to check")));
        }
    }
    // Before the first tensor: a CUDA library that comes later is not found.
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

fn table(reports: &[conformance::Report]) -> String {
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
