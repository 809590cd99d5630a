//! TensorBoard event files.
//!
//! Uses the record format and messages of tensorboard-rs but not its file writer, which writes in a
//! background thread that panics on a full disk and truncates the file of another writer started
//! within the same second.

use crate::{Error, Result};
use protobuf::Message;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tensorboard_proto::event::{Event, SessionLog, SessionLog_SessionStatus};
use tensorboard_proto::summary::{Summary, Summary_Value};
use tensorboard_rs::record_writer::RecordWriter;

const PREFIX: &str = "events.out.tfevents.";

/// Writes one event file. After a failure such as a full disk, it warns once and writes nothing more:
/// training continues, and `metrics.jsonl` has every scalar.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    /// `None` after a failure.
    file: Option<File>,
    /// Bytes of complete records in the file.
    length: u64,
}

impl EventWriter {
    /// Creates another event file in a log folder.
    ///
    /// With `resume_step`, TensorBoard discards later steps in earlier files.
    pub fn create(folder: &Path, resume_step: Option<u64>) -> Self {
        let (path, opened) = match create_file(folder) {
            Ok((path, file)) => (path, Ok(file)),
            Err(error) => (folder.to_path_buf(), Err(error)),
        };
        let mut writer = Self { path, file: None, length: 0 };
        match opened {
            Ok(file) => writer.file = Some(file),
            Err(error) => writer.give_up(&error.to_string()),
        }
        let mut version = Event::new();
        version.set_file_version("brain.Event:2".into());
        writer.add(version);
        // TensorBoard drops everything from the step of a START event on, that step included. One of its
        // two readers takes the first START as that of the run, so each file starts with one.
        let mut log = SessionLog::new();
        log.set_status(SessionLog_SessionStatus::START);
        let mut start = Event::new();
        start.set_step(resume_step.map_or(0, |step| signed(step).saturating_add(1)));
        start.set_session_log(log);
        writer.add(start);
        writer
    }

    /// Adds values of one step.
    pub fn write(&mut self, step: u64, values: Vec<Summary_Value>) {
        let mut summary = Summary::new();
        summary.set_value(values.into());
        let mut event = Event::new();
        event.set_step(signed(step));
        event.set_summary(summary);
        self.add(event);
    }

    /// Whether events still reach the file.
    #[cfg(test)]
    pub(crate) fn is_working(&self) -> bool {
        self.file.is_some()
    }

    fn add(&mut self, mut event: Event) {
        let Some(file) = &mut self.file else { return };
        event.set_wall_time(seconds_since_1970());
        let mut record = Vec::new();
        let written = event
            .write_to_bytes()
            .map_err(std::io::Error::other)
            .and_then(|bytes| RecordWriter::new(&mut record).write(&bytes))
            .and_then(|()| file.write_all(&record));
        match written {
            Ok(()) => self.length += record.len() as u64,
            Err(error) => {
                // TensorBoard stops reading at the first broken record: remove it. If that fails
                // too, the reader stops where the data ends anyway.
                let _ = file.set_len(self.length);
                self.give_up(&error.to_string());
            }
        }
    }

    fn give_up(&mut self, reason: &str) {
        self.file = None;
        let path = self.path.display();
        tracing::warn!(
            "cannot write TensorBoard events to `{path}`: {reason}; the run continues without them, and `metrics.jsonl` has all scalars"
        );
    }
}

/// Removes all event files of a log folder, for a run that starts from the beginning.
pub(crate) fn remove_all(folder: &Path) -> Result<()> {
    for (_, path) in event_files(folder)? {
        std::fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    Ok(())
}

/// TensorBoard reads the files of a folder in the order of their names, so a new file gets a later
/// timestamp than all others, even within the same second or after the clock went back.
fn create_file(folder: &Path) -> Result<(PathBuf, File)> {
    let newest = event_files(folder)?.iter().map(|(time, _)| *time).max();
    let time = newest.map_or(0, |t| t.saturating_add(1)).max(seconds_since_1970() as u64);
    let path = folder.join(format!("{PREFIX}{time:010}.curricle.{}.0", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(Error::file("create", &path))?;
    Ok((path, file))
}

/// The event files of a folder with the timestamps in their names.
fn event_files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let path = entry.map_err(Error::file("read", folder))?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(rest) = name.strip_prefix(PREFIX) {
            let time = rest.split('.').next().and_then(|t| t.parse().ok()).unwrap_or(0);
            files.push((time, path));
        }
    }
    Ok(files)
}

/// The current Unix time, as TensorBoard expects it.
pub(super) fn seconds_since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn signed(step: u64) -> i64 {
    i64::try_from(step).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::summary;

    #[test]
    fn files_created_within_one_second_sort_in_order_of_creation() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..5).map(|_| EventWriter::create(folder.path(), None).path).collect();
        let mut found: Vec<_> = event_files(folder.path()).unwrap().into_iter().map(|(_, p)| p).collect();
        found.sort();
        assert_eq!(found, paths);
    }

    #[test]
    fn a_full_disk_stops_only_the_events() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut writer = EventWriter { path: "/dev/full".into(), file: Some(full), length: 0 };
        for step in 0..3 {
            writer.write(step, vec![summary::scalar("a", 1.0)]);
            assert!(!writer.is_working());
        }
    }

    #[test]
    fn a_missing_folder_stops_only_the_events() {
        assert!(!EventWriter::create(Path::new("/nonexistent/folder"), None).is_working());
    }

    #[test]
    fn only_event_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("recipe.toml"), "").unwrap();
        EventWriter::create(folder.path(), None);
        remove_all(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
