//! Checks that repeated calls do not leak memory.

use super::batches::{Case, make};
use super::sampler::{self, labels};
use super::{NotPassed, Subject, fail, skip};

/// Number of calls per measurement.
const CALLS: usize = 200;
/// Growth per call, in bytes, below which nothing is reported. A tensor takes a few hundred, a small
/// box 32.
const BYTES: usize = 32;
/// Number of measurements after a first one that fills caches. A leak shows in each of them; the
/// allocator's fluctuations do not.
const MEASUREMENTS: usize = 12;

/// A loss does not leak in forward, backward or construction.
pub(crate) fn loss_leaks_nothing(subject: &Subject) -> Result<(), NotPassed> {
    let loss = make(subject)?;
    let case = Case::usual(loss.as_ref(), 0)?;
    steady(|| case.run(loss.as_ref()).map(drop))?;
    steady(|| make(subject).map(drop))
}

/// A sampler does not leak.
pub(crate) fn sampler_leaks_nothing(subject: &Subject) -> Result<(), NotPassed> {
    let sampler = sampler::make(subject)?;
    let labels = labels();
    steady(|| {
        sampler::batches(sampler.as_ref(), &labels, 0, 0)?;
        Ok(())
    })
}

/// A weight scheme does not leak.
pub(crate) fn weights_leak_nothing(subject: &Subject) -> Result<(), NotPassed> {
    let scheme = super::weights::make(subject)?;
    let data = super::weights::WeightedData::usual();
    steady(|| data.update(scheme.as_ref()).map(drop))
}

fn steady(mut call: impl FnMut() -> Result<(), NotPassed>) -> Result<(), NotPassed> {
    let mut measure = || {
        let before = in_use();
        for _ in 0..CALLS {
            call()?;
        }
        Ok::<_, NotPassed>(before.zip(in_use()).map(|(before, after)| after.saturating_sub(before)))
    };
    measure()?;
    let mut least = usize::MAX;
    for _ in 0..MEASUREMENTS {
        match measure()? {
            Some(grown) if grown < CALLS * BYTES => return Ok(()),
            Some(grown) => least = least.min(grown),
            None => return skip("this system does not report how much memory is in use"),
        }
    }
    fail(format!("each call leaks {} bytes", least / CALLS))
}

/// Number of bytes in use on this process's heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_use() -> Option<usize> {
    // SAFETY: reads counters of the allocator, which libtorch and Rust share.
    let info = unsafe { libc::mallinfo2() };
    Some(info.uordblks + info.hblkhd)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use() -> Option<usize> {
    None
}
