//! Embeddings in files of other tools: NumPy's `.npy` and `.npz`, PyTorch's `.pt`.
//!
//! The format is detected from the contents. Tensors are passed on as safetensors, so that every format is checked in
//! the same place.

use crate::{Error, Result, backbone, caught, tensor_file};
use curricle_eval::EmbeddingFile;
use std::path::Path;
use tch::{Device, Tensor};

/// How to save embeddings in NumPy, for messages.
const NUMPY: &str = "np.savez(\"embeddings.npz\", embeddings=…, labels=…)";
/// How to save embeddings in PyTorch, for messages.
const PYTORCH: &str = "torch.save({\"embeddings\": …, \"labels\": …}, \"embeddings.pt\")";
/// Number of names shown of a longer list.
const SHOWN: usize = 5;

/// Reads embeddings and labels. A `.npy` file holds one array, so its labels are in another file.
pub fn read_embeddings(path: &Path, labels: Option<&Path>, device: Device) -> Result<EmbeddingFile> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let wrong = |message: String| Error::format(path, message);
    let is_npy = bytes.starts_with(b"\x93NUMPY");
    if labels.is_some() && !is_npy {
        return Err(Error::Usage(format!(
            "`--labels` is for `.npy` files, but `{}` is not one; remove it",
            path.display()
        )));
    }
    let tensors = if is_npy {
        let labels = labels.ok_or_else(|| {
            wrong(format!("holds a single array; give the labels with `--labels FILE`, or save both with `{NUMPY}`"))
        })?;
        vec![("embeddings".to_string(), npy(path)?), ("labels".to_string(), npy(labels)?)]
    } else if is_npz(&bytes) {
        let all = caught("reading the archive", || Tensor::read_npz(path).map_err(|e| unreadable(path, &e)))?;
        complete(all, NUMPY).map_err(wrong)?
    } else if let Some(found) = backbone::pytorch_tensors(&bytes) {
        complete(found.map_err(wrong)?, PYTORCH).map_err(wrong)?
    } else if bytes.get(8) == Some(&b'{') {
        return EmbeddingFile::parse(&bytes, device).map_err(wrong);
    } else {
        return Err(wrong(format!("is neither a safetensors, `.npz`, `.npy` nor `.pt` file; save it with `{NUMPY}`")));
    };
    EmbeddingFile::parse(&tensor_file::to_bytes(&tensors, None)?, device).map_err(wrong)
}

fn npy(path: &Path) -> Result<Tensor> {
    caught("reading the array", || Tensor::read_npy(path).map_err(|e| unreadable(path, &e)))
}

fn unreadable(path: &Path, error: &tch::TchError) -> Error {
    let reason = match error {
        tch::TchError::FileFormat(reason) => reason.clone(),
        other => other.to_string().lines().next().unwrap_or_default().to_string(),
    };
    let hint = match reason.as_str() {
        reason if reason.contains("fortran order") => "; save `np.ascontiguousarray(…)` instead".to_string(),
        reason if reason.contains("descr") => {
            "; embeddings must be floats and labels integers, e.g. `np.unique(labels, return_inverse=True)[1]`".into()
        }
        _ => String::new(),
    };
    Error::format(path, format!("cannot be read as NumPy arrays: {reason}{hint}"))
}

/// The tensors, if both that are needed are among them.
fn complete(tensors: Vec<(String, Tensor)>, how: &str) -> Result<Vec<(String, Tensor)>, String> {
    let missing = ["embeddings", "labels"].into_iter().find(|name| tensors.iter().all(|(other, _)| other != name));
    let Some(name) = missing else { return Ok(tensors) };
    if tensors.is_empty() {
        return Err(format!(
            "has no tensors with names; a single tensor has none, and NumPy arrays are read from `.npz` files only; \
             save it with `{how}`"
        ));
    }
    let mut found: Vec<_> = tensors.iter().take(SHOWN).map(|(name, _)| format!("`{name}`")).collect();
    found.extend((tensors.len() > SHOWN).then(|| "…".to_string()));
    Err(format!("has no tensor named `{name}`, only {}; save it with `{how}`", found.join(", ")))
}

fn is_npz(bytes: &[u8]) -> bool {
    let Ok(archive) = zip::ZipArchive::new(std::io::Cursor::new(bytes)) else { return false };
    archive.file_names().any(|name| name.ends_with(".npy"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn tensors() -> (Tensor, Tensor) {
        (Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 1.0]).view([2, 2]), Tensor::from_slice(&[4_i64, 9]))
    }

    #[test]
    fn numpy_files_are_read_like_safetensors() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (embeddings, labels) = tensors();
        Tensor::write_npz(&[("embeddings", &embeddings), ("labels", &labels)], file("x.npz")).unwrap();
        embeddings.write_npy(file("e.npy")).unwrap();
        labels.write_npy(file("l.npy")).unwrap();
        let npz = read_embeddings(&file("x.npz"), None, Device::Cpu).unwrap();
        let npy = read_embeddings(&file("e.npy"), Some(&file("l.npy")), Device::Cpu).unwrap();
        for read in [npz, npy] {
            assert_eq!((read.embeddings, read.labels), (embeddings.shallow_clone(), vec![4, 9]));
        }
    }

    #[test]
    fn errors_say_how_to_save() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (embeddings, _) = tensors();
        embeddings.write_npy(file("e.npy")).unwrap();
        Tensor::write_npz(&[("x", &embeddings)], file("x.npz")).unwrap();
        std::fs::write(file("x.bin"), "something else").unwrap();
        let mut empty = zip::ZipWriter::new(std::fs::File::create(file("x.pt")).unwrap());
        empty.start_file("x/data.pkl", zip::write::FileOptions::default()).unwrap();
        // `{}`, which is also what remains of a dictionary of NumPy arrays.
        empty.write_all(b"\x80\x02}.").unwrap();
        empty.finish().unwrap();
        let error = |name: &str| read_embeddings(&file(name), None, Device::Cpu).unwrap_err().to_string();
        assert!(error("e.npy").contains("--labels FILE"), "{}", error("e.npy"));
        let others = "no tensor named `embeddings`, only `x`; save it with `np.savez";
        assert!(error("x.npz").contains(others), "{}", error("x.npz"));
        assert!(error("x.pt").contains("no tensors with names; a single tensor has none"), "{}", error("x.pt"));
        assert!(error("x.bin").contains("is neither a safetensors"), "{}", error("x.bin"));
        let labels = read_embeddings(&file("x.npz"), Some(&file("e.npy")), Device::Cpu).unwrap_err().to_string();
        assert!(labels.contains("`--labels` is for `.npy` files"), "{labels}");
    }
}
