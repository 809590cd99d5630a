//! Devices and threads of the concurrent runs on this machine.

use super::Args;
use crate::error::{Error, Result};
use curricle_engine::device::{self, DeviceChoice};

/// The device of each concurrent run.
pub(super) fn slots(args: &Args) -> Result<Vec<String>> {
    if args.devices.is_empty() {
        return Ok(vec![args.device.device.to_string(); args.jobs.unwrap_or(1)]);
    }
    for (index, one) in args.devices.iter().enumerate() {
        match one {
            DeviceChoice::Auto => {
                return Err(Error::usage("`--devices` must name devices such as `cuda:0`, not `auto`".into()));
            }
            _ if args.devices[..index].contains(one) => {
                return Err(Error::usage(format!("`--devices` names `{one}` twice; use `--per-device 2` instead")));
            }
            // Fail once here rather than in every run.
            DeviceChoice::Cuda(number) => {
                device::cuda::probe().has(*number).map_err(|why| Error::usage(format!("cannot use `{one}`: {why}")))?;
            }
            DeviceChoice::Cpu => {}
        }
    }
    // Interleaved, so that a few runs spread over all devices.
    let rounds = args.per_device.unwrap_or(1);
    Ok((0..rounds).flat_map(|_| args.devices.iter().map(ToString::to_string)).collect())
}

/// Number of threads of each of `slots` concurrent runs.
pub(super) fn threads(args: &Args, slots: usize) -> Option<usize> {
    args.device.threads.or_else(|| (slots > 1).then(|| (device::physical_cores() / slots).max(1)))
}
