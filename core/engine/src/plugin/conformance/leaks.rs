//! Memory that repeated calls do not give back.

use super::batches::{Case, make};
use super::sampler::{self, labels};
use super::{Stop, Subject, fail, skip};
use curricle_sdk::{Epoch, guard};

/// Calls in one measurement. Three measurements follow a first one that fills caches.
const CALLS: usize = 100;
/// Bytes for each call below which nothing is said: allocators round.
const BYTES: usize = 16;

/// Repeated losses and gradients.
pub fn loss_leaks_nothing(subject: &Subject) -> Result<(), Stop> {
    let loss = make(subject)?;
    let case = Case::usual(loss.as_ref(), 0)?;
    steady(|| case.run(loss.as_ref()).map(drop))?;
    steady(|| make(subject).map(drop))
}

/// Repeated epochs.
pub fn sampler_leaks_nothing(subject: &Subject) -> Result<(), Stop> {
    let sampler = sampler::make(subject)?;
    let labels = labels();
    steady(|| Ok(drop(guard(|| sampler.batches(&Epoch { labels: &labels, seed: 0, epoch: 0 }))?)))
}

/// Repeated rounds.
pub fn weights_leak_nothing(subject: &Subject) -> Result<(), Stop> {
    let scheme = super::weights::make(subject)?;
    let data = super::weights::Data::usual();
    steady(|| data.update(scheme.as_ref()).map(drop))
}

fn steady(mut call: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
    let mut measure = || {
        let before = in_use();
        for _ in 0..CALLS {
            call()?;
        }
        Ok::<_, Stop>(before.zip(in_use()).map(|(before, after)| after.saturating_sub(before)))
    };
    measure()?;
    // Something that leaks does so every time; a cache that grows once does not.
    let mut least = usize::MAX;
    for _ in 0..3 {
        match measure()? {
            Some(grown) => least = least.min(grown),
            None => return skip("this system does not tell how much memory is in use"),
        }
    }
    if least >= CALLS * BYTES {
        return fail(format!("each call keeps {} bytes for ever", least / CALLS));
    }
    Ok(())
}

/// Bytes in use in this process's heap.
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
