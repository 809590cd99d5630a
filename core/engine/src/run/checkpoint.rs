//! Checkpoints: tensors in safetensors, everything else in JSON.
//!
//! The JSON file is written last and names the tensor file with its hash, so a checkpoint is valid
//! only if both are complete. The previous checkpoint is removed once the new one is written.

use crate::tensor_file::{self, HostTensors};
use crate::train::meter::MeterState;
use crate::{Error, Result};
use curricle_record::{Metrics, files};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tch::Tensor;

const FORMAT: u32 = 2;

/// Everything in a checkpoint that is not a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch to resume in, counted from 0.
    pub epoch: u64,
    /// Steps already taken in it.
    pub step: usize,
    /// Steps taken since the start of training.
    pub global_step: u64,
    /// Losses that have not been logged.
    pub meter: MeterState,
    /// Hash of all batches of the finished epochs.
    pub batches_hash: String,
    /// The metrics of the untrained model.
    pub untrained: Metrics,
    /// Seconds of training before this checkpoint.
    pub seconds: f64,
}

/// The JSON file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    /// A [`Body`] as JSON text, so that its hash does not depend on how numbers are printed. Format 1 has none.
    #[serde(default)]
    body: String,
    #[serde(default)]
    body_blake3: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Body {
    position: Position,
    tensors: String,
    tensors_blake3: String,
}

impl Header {
    fn new(body: &Body) -> Result<Self> {
        let body = serde_json::to_string(body).map_err(Error::encode("checkpoint"))?;
        Ok(Self { format: FORMAT, body_blake3: hash(body.as_bytes()), body })
    }

    /// The contents, if they are those that were written.
    fn body(&self) -> Option<Body> {
        serde_json::from_str(&self.body).ok().filter(|_| hash(self.body.as_bytes()) == self.body_blake3)
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// A checkpoint in memory.
#[derive(Debug)]
pub struct Checkpoint {
    /// The position in training.
    pub position: Position,
    /// Every tensor, on the CPU.
    pub tensors: HashMap<String, Tensor>,
}

/// Writes a checkpoint into `folder` and removes older ones, and what a process left that was killed while writing one.
pub fn save(folder: &Path, position: &Position, tensors: &HostTensors) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    let stem = format!("step-{:08}", position.global_step);
    // A stop within an epoch and the epoch's end never share a step. A run that is stopped twice
    // before its next step writes the same file again, but then the tensors are the same too.
    let tensor_file = format!("{stem}.safetensors");
    let bytes = tensors.to_bytes(None)?;
    files::write(&folder.join(&tensor_file), &bytes)?;
    let body = Body { position: position.clone(), tensors: tensor_file, tensors_blake3: hash(&bytes) };
    files::write_json(&folder.join(format!("{stem}.json")), &Header::new(&body)?)?;
    for path in listed(folder)?.into_iter().filter(|path| path.file_stem() != Some(stem.as_ref())) {
        std::fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    Ok(())
}

/// The latest complete checkpoint in `folder`, if there is one.
pub(crate) fn latest(folder: &Path) -> Result<Option<Checkpoint>> {
    let mut headers: Vec<_> =
        listed(folder)?.into_iter().filter(|path| path.extension() == Some("json".as_ref())).collect();
    headers.sort();
    headers.pop().map(|path| read(&path)).transpose()
}

/// Reads a checkpoint, given either of its files.
pub(super) fn read(path: &Path) -> Result<Checkpoint> {
    let path = path.with_extension("json");
    let header: Header = match files::read_json(&path) {
        Ok(header) => header.ok_or_else(|| Error::format(&path, "does not exist"))?,
        Err(curricle_record::Error::Format { path, message }) => {
            return Err(Error::format(path, format!("{message}; use `--force` to start over")));
        }
        Err(error) => return Err(error.into()),
    };
    if header.format != FORMAT {
        let message = format!(
            "has format {}; this version of curricle reads format {FORMAT}. Use `--force` to start over",
            header.format
        );
        return Err(Error::format(path, message));
    }
    let corrupt = |path: &Path| {
        let message = "is corrupt: its contents do not match the hash in the checkpoint; use `--force` to start over";
        Error::format(path, message)
    };
    let body = header.body().ok_or_else(|| corrupt(&path))?;
    let tensor_path = path.with_file_name(&body.tensors);
    let bytes = match std::fs::read(&tensor_path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = "is missing, but the checkpoint needs it; restore it, or use `--force` to start over";
            return Err(Error::format(tensor_path, message));
        }
        read => read.map_err(Error::file("read", &tensor_path))?,
    };
    if hash(&bytes) != body.tensors_blake3 {
        return Err(corrupt(&tensor_path));
    }
    let (tensors, _) = tensor_file::read(&tensor_path)?;
    Ok(Checkpoint { position: body.position, tensors })
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|e| e.path()).filter(|p| is_checkpoint(p)).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::file("read", folder)(error)),
    }
}

/// Whether a file is a checkpoint's, complete or not.
fn is_checkpoint(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("step-"));
    // Only this process writes here: the run is locked.
    named || files::is_temporary(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(global_step: u64) -> Position {
        let meter = MeterState::default();
        let untrained = Metrics { recall: [(1, 0.5)].into(), ..Default::default() };
        Position { epoch: 1, step: 2, global_step, meter, batches_hash: "h".into(), untrained, seconds: 0.5 }
    }

    fn tensors(value: f32) -> HostTensors {
        HostTensors::gather(&[("model.x".to_string(), Tensor::from_slice(&[value, 2.0]))]).unwrap()
    }

    #[test]
    fn the_latest_checkpoint_is_loaded_and_older_ones_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(latest(folder.path()).unwrap().is_none());
        save(folder.path(), &position(5), &tensors(1.0)).unwrap();
        save(folder.path(), &position(10), &tensors(3.0)).unwrap();
        let back = latest(folder.path()).unwrap().unwrap();
        assert_eq!(back.position, position(10));
        assert_eq!(back.tensors["model.x"], Tensor::from_slice(&[3.0f32, 2.0]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_a_killed_process_left_is_ignored_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &position(5), &tensors(1.0)).unwrap();
        let left = folder.path().join(".writing-a1b2c3.tmp");
        std::fs::write(&left, b"half").unwrap();
        assert_eq!(latest(folder.path()).unwrap().unwrap().position.global_step, 5);
        save(folder.path(), &position(10), &tensors(1.0)).unwrap();
        assert!(!left.exists());
        assert_eq!(latest(folder.path()).unwrap().unwrap().position.global_step, 10);
    }

    #[test]
    fn tensors_without_their_json_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &position(5), &tensors(1.0)).unwrap();
        std::fs::write(folder.path().join("step-00000010.safetensors"), b"half").unwrap();
        assert_eq!(latest(folder.path()).unwrap().unwrap().position.global_step, 5);
    }

    #[test]
    fn a_corrupt_checkpoint_is_named() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &position(5), &tensors(1.0)).unwrap();
        std::fs::write(folder.path().join("step-00000005.safetensors"), b"rubbish").unwrap();
        let message = latest(folder.path()).unwrap_err().to_string();
        assert!(message.contains("step-00000005.safetensors") && message.contains("corrupt"), "{message}");
    }

    #[test]
    fn half_a_checkpoint_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &position(5), &tensors(1.0)).unwrap();
        let message = || latest(folder.path()).unwrap_err().to_string();
        std::fs::remove_file(folder.path().join("step-00000005.safetensors")).unwrap();
        let missing = message();
        assert!(missing.contains("step-00000005.safetensors`: is missing"), "{missing}");
        std::fs::write(folder.path().join("step-00000005.json"), "{").unwrap();
        let damaged = message();
        assert!(damaged.contains("step-00000005.json`: cannot be parsed"), "{damaged}");
        for message in [missing, damaged] {
            assert!(message.ends_with("use `--force` to start over"), "{message}");
        }
    }

    #[test]
    fn an_edited_position_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), &position(5), &tensors(1.0)).unwrap();
        let path = folder.path().join("step-00000005.json");
        let text = std::fs::read_to_string(&path).unwrap();
        for setting in [r#"\"epoch\":"#, r#"\"step\":"#, r#"\"global_step\":"#] {
            let edited = text.replacen(setting, &format!("{setting}1"), 1);
            assert_ne!(text, edited);
            std::fs::write(&path, edited).unwrap();
            let message = latest(folder.path()).unwrap_err().to_string();
            assert!(message.contains("step-00000005.json") && message.contains("corrupt"), "{message}");
        }
    }

    #[test]
    fn a_checkpoint_of_an_earlier_version_is_refused_with_its_format() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("step-00000005.json"), r#"{"format": 1, "position": {}}"#).unwrap();
        let message = latest(folder.path()).unwrap_err().to_string();
        assert!(message.contains("has format 1; this version of curricle reads format 2"), "{message}");
    }
}
