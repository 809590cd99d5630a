//! Writes checkpoints in the background, so that training does not wait for the disk.

use super::checkpoint::{self, Position};
use crate::tensor_file::HostTensors;
use crate::{Error, Result, caught};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Writes one checkpoint at a time on a background thread.
///
/// An error is reported by the next call, at the latest before the next checkpoint. Files of earlier checkpoints are
/// removed only after a later one is complete.
#[derive(Debug)]
pub(super) struct CheckpointWriter {
    folder: PathBuf,
    /// The shortest time between periodic checkpoints.
    interval: Duration,
    last: Instant,
    in_flight: Option<JoinHandle<Result<()>>>,
}

impl CheckpointWriter {
    pub(super) fn new(folder: PathBuf, interval: Duration) -> Self {
        Self { folder, interval, last: Instant::now(), in_flight: None }
    }

    /// Whether it is time for a periodic checkpoint. Does not wait.
    pub(super) fn is_due(&mut self) -> Result<bool> {
        if self.in_flight.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish()?;
        }
        Ok(self.last.elapsed() >= self.interval)
    }

    /// Begins to write a checkpoint, after the one in flight. Call [`Self::finish`] before the tensors are gathered:
    /// two copies of them would take twice the memory.
    pub(super) fn begin(&mut self, position: Position, tensors: HostTensors) -> Result<()> {
        self.finish()?;
        self.last = Instant::now();
        let folder = self.folder.clone();
        let write = move || caught("writing a checkpoint", || checkpoint::save(&folder, &position, &tensors));
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(write);
        self.in_flight = Some(thread.map_err(|e| Error::Failed(format!("cannot start the checkpoint writer: {e}")))?);
        Ok(())
    }

    /// Waits for the checkpoint in flight.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(thread) = self.in_flight.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(Error::Failed("the checkpoint writer panicked".into())))
    }
}

impl Drop for CheckpointWriter {
    /// A run that fails keeps the checkpoint in flight.
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!("the last checkpoint was not written: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::meter::MeterState;
    use curricle_record::Metrics;
    use tch::Tensor;

    fn begin(writer: &mut CheckpointWriter, global_step: u64) -> Result<()> {
        let (meter, untrained) = (MeterState::default(), Metrics::default());
        let position =
            Position { epoch: 1, step: 2, global_step, meter, batches_hash: "h".into(), untrained, seconds: 0.5 };
        let tensors = [("model.x".to_string(), Tensor::from(global_step as f32))];
        writer.begin(position, HostTensors::gather(&tensors)?)
    }

    fn latest(folder: &std::path::Path) -> u64 {
        checkpoint::latest(folder).unwrap().unwrap().position.global_step
    }

    #[test]
    fn a_dropped_writer_completes_its_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = CheckpointWriter::new(folder.path().into(), Duration::ZERO);
        begin(&mut writer, 5).unwrap();
        begin(&mut writer, 10).unwrap();
        drop(writer);
        assert_eq!(latest(folder.path()), 10);
    }

    #[test]
    fn an_error_is_reported_by_the_next_call_and_earlier_checkpoints_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = CheckpointWriter::new(folder.path().into(), Duration::ZERO);
        begin(&mut writer, 5).unwrap();
        writer.finish().unwrap();
        // A folder in its place cannot be replaced by a file, not even by root.
        std::fs::create_dir(folder.path().join("step-00000010.json")).unwrap();
        begin(&mut writer, 10).unwrap();
        let message = begin(&mut writer, 15).unwrap_err().to_string();
        assert!(message.contains("cannot write") && message.contains("step-00000010.json"), "{message}");
        std::fs::remove_dir(folder.path().join("step-00000010.json")).unwrap();
        assert_eq!(latest(folder.path()), 5);
    }

    #[test]
    fn periodic_checkpoints_keep_their_distance() {
        let folder = tempfile::tempdir().unwrap();
        let mut often = CheckpointWriter::new(folder.path().into(), Duration::ZERO);
        let mut rarely = CheckpointWriter::new(folder.path().into(), Duration::from_secs(3600));
        begin(&mut rarely, 5).unwrap();
        assert!(often.is_due().unwrap() && !rarely.is_due().unwrap());
    }
}
