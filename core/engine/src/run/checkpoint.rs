//! Checkpoints: tensors in safetensors, everything else in JSON.
//!
//! The JSON file is written last and names the tensor file with its hash, so a checkpoint is valid
//! only if both are complete. The previous checkpoint is removed once the new one is written.

use crate::tensor_file;
use crate::train::meter::MeterState;
use crate::{Error, Result};
use curricle_record::{Metrics, files};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tch::Tensor;

const FORMAT: u32 = 1;

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

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    position: Position,
    tensors: String,
    tensors_blake3: String,
}

/// A checkpoint in memory.
#[derive(Debug)]
pub struct Checkpoint {
    /// The position in training.
    pub position: Position,
    /// Every tensor, on the CPU.
    pub tensors: HashMap<String, Tensor>,
}

/// Writes a checkpoint into `folder` and removes older ones.
pub fn save(folder: &Path, position: &Position, tensors: &[(String, Tensor)]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    let stem = format!("step-{:08}", position.global_step);
    // A stop within an epoch and the epoch's end never share a step. A run that is stopped twice
    // before its next step writes the same file again, but then the tensors are the same too.
    let tensor_file = format!("{stem}.safetensors");
    let bytes = tensor_file::to_bytes(tensors, None)?;
    files::write(&folder.join(&tensor_file), &bytes)?;
    let header = Header {
        format: FORMAT,
        position: position.clone(),
        tensors: tensor_file,
        tensors_blake3: blake3::hash(&bytes).to_hex().to_string(),
    };
    files::write_json(&folder.join(format!("{stem}.json")), &header)?;
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
    for path in headers.into_iter().rev() {
        let Some(header) = files::read_json::<Header>(&path)? else { continue };
        if header.format != FORMAT {
            let message = format!("has format {}; this version of curricle reads format {FORMAT}", header.format);
            return Err(Error::format(path, message));
        }
        let tensor_path = folder.join(&header.tensors);
        let bytes = std::fs::read(&tensor_path).map_err(Error::file("read", &tensor_path))?;
        if blake3::hash(&bytes).to_hex().as_str() != header.tensors_blake3 {
            let message = "is corrupt: its contents do not match the hash in the checkpoint; use `--force` \
                           to start over";
            return Err(Error::format(tensor_path, message));
        }
        let (tensors, _) = tensor_file::read(&tensor_path)?;
        return Ok(Some(Checkpoint { position: header.position, tensors }));
    }
    Ok(None)
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|e| e.path()).filter(|p| is_checkpoint(p)).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::file("read", folder)(error)),
    }
}

fn is_checkpoint(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("step-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(global_step: u64) -> Position {
        let meter = MeterState::default();
        let untrained = Metrics { recall: [(1, 0.5)].into(), ..Default::default() };
        Position { epoch: 1, step: 2, global_step, meter, batches_hash: "h".into(), untrained, seconds: 0.5 }
    }

    fn tensors(value: f32) -> Vec<(String, Tensor)> {
        vec![("model.x".to_string(), Tensor::from_slice(&[value, 2.0]))]
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
}
