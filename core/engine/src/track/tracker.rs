//! Writes everything a run measures to `metrics.jsonl` and TensorBoard.

use super::events::{self, EventWriter};
use super::histogram::TensorboardHistogram;
use super::{HParams, RgbImage, hparams, summary};
use crate::{Error, Result};
use curricle_record::metrics_file::{self, MetricsFile, Scalar};
use curricle_record::{RunFolder, files};
use std::path::{Path, PathBuf};

/// Charts of TensorBoard's `Custom Scalars` tab, in the order of the questions people ask: a title and a
/// pattern of tags each. Every chart shows all selected runs.
const CHARTS: [(&str, &str); 7] = [
    ("Recall@1 on the test classes", r"^eval/recall@1$"),
    ("Training loss, mean of each epoch", r"^train/epoch_loss$"),
    ("Wrong labels found by the weights (AUROC)", r"^weights/auroc$"),
    ("Mean weight of clean and of flipped samples", r"^weights/weight_(clean|noisy)$"),
    ("Average weight: mean (MAW) and spread (SDAW) over classes", r"^weights/(maw|sdaw)$"),
    ("MAP@R", r"^eval/map@r$"),
    ("NMI", r"^eval/nmi$"),
];

/// Writes what a run measures; one per run folder.
///
/// Write everything of a step and call [`Tracker::flush`] before the step's checkpoint: on resume,
/// records of later steps are removed and those of the checkpoint's step are kept. The metrics of a run
/// are then the same however often it was interrupted.
#[derive(Debug)]
pub struct Tracker {
    folder: PathBuf,
    metrics: MetricsFile,
    events: EventWriter,
}

impl Tracker {
    /// Opens the files of a run folder: new ones, or those of a run that resumes after a step.
    pub fn create(folder: &Path, resume_step: Option<u64>) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        let path = RunFolder::new(folder).metrics();
        let metrics = match resume_step {
            None => MetricsFile::create(&path)?,
            Some(step) => MetricsFile::resume(&path, step)?,
        };
        if resume_step.is_none() {
            events::remove_all(folder)?;
        }
        let mut events = EventWriter::create(folder, resume_step);
        events.write(0, vec![summary::layout("Robustness to wrong labels", &CHARTS)?]);
        Ok(Self { folder: folder.to_path_buf(), metrics, events })
    }

    /// Writes one scalar.
    pub fn scalar(&mut self, tag: &str, value: f64, step: u64, epoch: u64) -> Result<()> {
        self.scalars(&[(tag, value)], step, epoch)
    }

    /// Writes the scalars of one step. Rates and durations belong under [`metrics_file::TIME`].
    pub fn scalars<T: AsRef<str>>(&mut self, values: &[(T, f64)], step: u64, epoch: u64) -> Result<()> {
        let record = |(tag, value): &(T, f64)| Scalar { step, epoch, tag: tag.as_ref().to_string(), value: *value };
        let records: Vec<Scalar> = values.iter().map(record).collect();
        self.metrics.write(&records)?;
        self.events.write(step, records.iter().map(|r| summary::scalar(&r.tag, r.value)).collect());
        Ok(())
    }

    /// Writes a histogram of the finite values.
    pub fn histogram(&mut self, tag: &str, values: &[f64], step: u64, epoch: u64) -> Result<()> {
        let TensorboardHistogram { min, limits, counts } = TensorboardHistogram::of(values);
        let edges = std::iter::once(min).chain(limits).collect();
        self.metrics.write_histogram(&metrics_file::Histogram { step, epoch, tag: tag.to_string(), edges, counts })?;
        self.events.write(step, vec![summary::histogram(tag, values)]);
        Ok(())
    }

    /// Writes an image to TensorBoard only.
    pub fn image(&mut self, tag: &str, image: &RgbImage, step: u64) -> Result<()> {
        self.events.write(step, vec![summary::image(tag, image)?]);
        Ok(())
    }

    /// Writes an image to TensorBoard and to `<tag>.png` in the run folder, replacing an earlier one.
    pub(crate) fn latest_image(&mut self, tag: &str, image: &RgbImage, step: u64) -> Result<()> {
        files::write(&self.folder.join(format!("{tag}.png")), &image.to_png()?)?;
        self.image(tag, image, step)
    }

    /// Writes a Markdown text to TensorBoard only.
    pub fn text(&mut self, tag: &str, markdown: &str, step: u64) {
        self.events.write(step, vec![summary::text(tag, markdown)]);
    }

    /// Writes the run's row of TensorBoard's `HParams` tab.
    pub fn hparams(&mut self, hparams: &HParams) -> Result<()> {
        self.events.write(0, vec![hparams::experiment()?, hparams::start(hparams)?]);
        Ok(())
    }

    /// Syncs everything written so far to disk. Call this before a checkpoint.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.metrics.sync()?)
    }

    /// Records that the run is finished, and closes the files.
    ///
    /// TensorBoard keeps the first end status it reads: an interrupted or failed run, which may be resumed, has none.
    pub fn finish(mut self) -> Result<()> {
        self.events.write(0, vec![hparams::finished()?]);
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path) -> Vec<u8> {
        std::fs::read(RunFolder::new(folder).metrics()).unwrap()
    }

    fn train(tracker: &mut Tracker, steps: std::ops::RangeInclusive<u64>) {
        for step in steps {
            tracker.scalars(&[("train/loss", 1.0 / step as f64), ("train/lr", 0.1)], step, step / 4).unwrap();
        }
    }

    #[test]
    fn interruptions_leave_no_trace_in_the_metrics() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        train(&mut Tracker::create(&whole, None).unwrap(), 1..=30);
        train(&mut Tracker::create(&parts, None).unwrap(), 1..=13);
        train(&mut Tracker::create(&parts, Some(10)).unwrap(), 11..=24);
        train(&mut Tracker::create(&parts, Some(20)).unwrap(), 21..=30);
        assert_eq!(lines(&whole), lines(&parts));
    }

    #[test]
    fn a_restarted_run_discards_earlier_files() {
        let folder = tempfile::tempdir().unwrap();
        train(&mut Tracker::create(folder.path(), None).unwrap(), 1..=30);
        let tracker = Tracker::create(folder.path(), None).unwrap();
        tracker.finish().unwrap();
        assert_eq!(metrics_file::read(&RunFolder::new(folder.path()).metrics()).unwrap(), []);
        // One file of metrics and one of events.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_error_names_a_folder_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let message = Tracker::create(&file.join("run"), None).unwrap_err().to_string();
        assert!(message.starts_with("cannot create `") && message.contains("file/run`: "), "{message}");
    }
}
