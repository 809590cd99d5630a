//! `metrics.jsonl`: every scalar and histogram of a run, one JSON object per line.
//!
//! ```text
//! {"format":"curricle-metrics","version":1}
//! {"step":10,"epoch":1,"tag":"train/loss","value":0.6931471805599453}
//! {"step":20,"epoch":1,"tag":"train/loss","value":"NaN"}
//! {"step":20,"epoch":1,"tag":"weights/noisy","edges":[0.0,0.5,1.0],"counts":[3.0,1.0]}
//! ```
//!
//! JSON cannot represent non-finite values: they are the strings `NaN`, `Infinity` and `-Infinity`. A
//! line is complete once its newline is written.

use crate::{Error, Result, any_float, files};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Prefix of tags that depend on the clock, such as step time and images per second.
pub const TIME: &str = "time/";

/// Number of bytes at the end of the file that are searched for the last record.
const TAIL: u64 = 4096;

const HEADER: &str = r#"{"format":"curricle-metrics","version":1}"#;

/// One scalar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// Optimiser steps done when it was measured.
    pub step: u64,
    /// Epochs started when it was measured; 0 is the untrained model.
    pub epoch: u64,
    /// Its name, e.g. `eval/recall@1`.
    pub tag: String,
    /// The number; fractions rather than percent.
    #[serde(with = "any_float")]
    pub value: f64,
}

/// One histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Optimiser steps done when it was measured.
    pub step: u64,
    /// Epochs started when it was measured.
    pub epoch: u64,
    /// Its name, e.g. `weights/noisy`.
    pub tag: String,
    /// Edges of the buckets, one more than there are buckets.
    pub edges: Vec<f64>,
    /// Number of values in each bucket.
    pub counts: Vec<f64>,
}

/// One line of the file.
enum Line {
    Scalar(Scalar),
    Histogram(Histogram),
}

impl Line {
    fn read(text: &[u8]) -> serde_json::Result<Self> {
        // Quotes within a string are escaped, so this cannot match there.
        match text.windows(8).any(|part| part == b"\"counts\"") {
            true => serde_json::from_slice(text).map(Self::Histogram),
            false => serde_json::from_slice(text).map(Self::Scalar),
        }
    }

    fn step(&self) -> u64 {
        match self {
            Self::Scalar(record) => record.step,
            Self::Histogram(record) => record.step,
        }
    }
}

/// Appends to a `metrics.jsonl`.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Creates the file, replacing an existing one.
    pub fn create(path: &Path) -> Result<Self> {
        files::write(path, format!("{HEADER}\n").as_bytes())?;
        Self::append(path)
    }

    /// Continues the file of a run that resumes after `step`. Records of later steps are removed: they
    /// will be written again.
    pub fn resume(path: &Path, step: u64) -> Result<Self> {
        if !path.exists() {
            tracing::warn!("`{}` is missing; metrics before step {step} are lost", path.display());
            return Self::create(path);
        }
        truncate_after(path, step)?;
        Self::append(path)
    }

    fn append(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).open(path).map_err(Error::file("write", path))?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Writes records with one system call, so that they survive if the process is killed.
    pub fn write<'a>(&mut self, records: impl IntoIterator<Item = &'a Scalar>) -> Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record).map_err(|e| self.failed(e.into()))?;
            lines.push(b'\n');
        }
        self.file.write_all(&lines).map_err(|e| self.failed(e))
    }

    /// Writes a histogram with one system call.
    pub fn write_histogram(&mut self, record: &Histogram) -> Result<()> {
        let line = serde_json::to_string(record).map_err(|e| self.failed(e.into()))? + "\n";
        self.file.write_all(line.as_bytes()).map_err(|e| self.failed(e))
    }

    /// Syncs the file to disk, so that records survive a power cut as well.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| self.failed(e))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::File { action: "write", path: self.path.clone(), source }
    }
}

/// All scalars of a file, in the order they were written.
pub fn read(path: &Path) -> Result<Vec<Scalar>> {
    let mut records = Vec::new();
    visit(path, |line, _| {
        records.extend(match line {
            Line::Scalar(record) => Some(record),
            Line::Histogram(_) => None,
        });
        Ok(())
    })?;
    Ok(records)
}

/// The epoch of the last complete record, if there is one. Reads only the end of the file.
pub fn last_epoch(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail).into_owned();
    let epoch = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["epoch"].as_u64();
    tail.lines().rev().find_map(epoch)
}

/// Removes the records of steps after `step`, and an incomplete last line.
pub(crate) fn truncate_after(path: &Path, step: u64) -> Result<()> {
    files::write_with(path, |file| {
        writeln!(file, "{HEADER}").map_err(Error::file("write", path))?;
        visit(path, |record, line| match record.step() <= step {
            true => file.write_all(line).map_err(Error::file("write", path)),
            false => Ok(()),
        })
    })
}

/// Calls `each` with every complete record and the bytes of its line.
fn visit(path: &Path, mut each: impl FnMut(Line, &[u8]) -> Result<()>) -> Result<()> {
    let wrong = |number: usize, message: &str| Error::Format {
        path: path.to_path_buf(),
        message: format!("line {number}: {message}; restore the file, or use `--force` to start over"),
    };
    let mut file = BufReader::new(File::open(path).map_err(Error::file("read", path))?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        file.read_until(b'\n', &mut line).map_err(Error::file("read", path))?;
        let Some(text) = line.strip_suffix(b"\n") else { break };
        if number > 1 {
            let record = Line::read(text).map_err(|e| wrong(number, &format!("not a record ({e})")))?;
            each(record, &line)?;
        } else if text != HEADER.as_bytes() {
            return Err(wrong(1, &format!("expected `{HEADER}`, the format of this version of curricle")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64, value: f64) -> Scalar {
        Scalar { step, epoch: step / 10, tag: "train/loss".into(), value }
    }

    fn write(path: &Path, steps: std::ops::Range<u64>) {
        let mut file = MetricsFile::resume(path, steps.start.saturating_sub(1)).unwrap();
        for step in steps {
            file.write(&[record(step, 1.0 / (step as f64 + 3.0))]).unwrap();
        }
    }

    #[test]
    fn values_round_trip_exactly_and_non_finite_ones_are_strings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let values = [0.1 + 0.2, -0.0, 1e-310, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let mut file = MetricsFile::create(&path).unwrap();
        file.write(&values.map(|v| record(1, v))).unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back.len(), values.len());
        for (record, value) in back.iter().zip(values) {
            assert_eq!(record.value.to_bits(), value.to_bits());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("\"value\":\"-Infinity\"}\n"), "{text}");
    }

    #[test]
    fn a_resumed_file_equals_an_uninterrupted_one() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, resumed) = (folder.path().join("whole"), folder.path().join("resumed"));
        MetricsFile::create(&whole).unwrap();
        write(&whole, 0..40);
        MetricsFile::create(&resumed).unwrap();
        write(&resumed, 0..27);
        // Killed in the middle of a line.
        let mut half = OpenOptions::new().append(true).open(&resumed).unwrap();
        half.write_all(br#"{"step":27,"ep"#).unwrap();
        write(&resumed, 21..40);
        assert_eq!(std::fs::read(&whole).unwrap(), std::fs::read(&resumed).unwrap());
    }

    #[test]
    fn histograms_and_scalars_share_a_file_and_are_truncated_by_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut file = MetricsFile::create(&path).unwrap();
        for step in [1, 2] {
            let (edges, counts) = (vec![0.0, 0.5, 1.0], vec![3.0, 1.0]);
            file.write(&[Scalar { tag: r#"a "counts" b"#.into(), ..record(step, 1.0) }]).unwrap();
            file.write_histogram(&Histogram { step, epoch: 1, tag: "weights/noisy".into(), edges, counts }).unwrap();
        }
        assert_eq!(read(&path).unwrap().len(), 2);
        truncate_after(&path, 1).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let last = r#"{"step":1,"epoch":1,"tag":"weights/noisy","edges":[0.0,0.5,1.0],"counts":[3.0,1.0]}"#;
        assert_eq!(text.lines().last().unwrap(), last);
    }

    #[test]
    fn an_incomplete_last_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, format!("{HEADER}\n{}", r#"{"step":1,"epoch":1,"tag":"a","value":1.0}"#)).unwrap();
        assert_eq!(read(&path).unwrap(), []);
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, format!("{HEADER}\n{{\"step\":1}}\n")).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("line 2: not a record (missing field `epoch`"), "{message}");
        std::fs::write(&path, "{\"format\":\"curricle-metrics\",\"version\":2}\n").unwrap();
        let message = truncate_after(&path, 1).unwrap_err().to_string();
        assert!(message.contains("line 1: expected"), "{message}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("\"version\":2"), "the file must not change");
    }

    #[test]
    fn the_last_epoch_is_that_of_the_last_complete_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"epoch\":1}\n{\"epoch\":2}\n{\"epo").unwrap();
        assert_eq!(last_epoch(&path), Some(2));
        assert_eq!(last_epoch(&folder.path().join("none")), None);
    }
}
