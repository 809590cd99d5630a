//! `curricle doctor`: checks whether this machine can run curricle.

use crate::error::{Error, Result};
use crate::output;
use curricle_engine::device::DeviceChoice;
use curricle_engine::doctor;

/// Check versions, devices, threads and disk space, and report problems.
///
/// Exits with 1 if a problem prevents runs on the CPU, or on the device given with `--device`; with
/// 0 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Device that must work: `auto`, `cpu`, `cuda` or `cuda:N`.
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: DeviceChoice,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the report.
pub(crate) fn run(args: &Args) -> Result<()> {
    let report = doctor::examine(args.device);
    let text = if args.json {
        serde_json::to_string_pretty(&report).map_err(|e| Error::failed(e.to_string()))? + "\n"
    } else {
        report.to_string()
    };
    output::print(&text)?;
    if report.ok {
        return Ok(());
    }
    let broken: Vec<_> =
        report.problems.iter().filter(|p| p.severity == doctor::Severity::Broken).map(|p| p.what.as_str()).collect();
    Err(Error::failed(broken.join("; ")))
}
