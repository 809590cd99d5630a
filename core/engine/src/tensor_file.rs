//! Safetensors files with metadata.

use crate::{Error, Result};
use safetensors::{Dtype, View};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use tch::{Kind, Tensor};

/// The metadata of a safetensors file.
pub(crate) type Metadata = HashMap<String, String>;

/// Serialises tensors and metadata as a safetensors file.
pub(crate) fn to_bytes(tensors: &[(String, Tensor)], metadata: Option<Metadata>) -> Result<Vec<u8>> {
    HostTensors::gather(tensors)?.to_bytes(metadata)
}

/// Tensors copied to the host, as they were at that moment.
#[derive(Debug)]
pub struct HostTensors {
    entries: Vec<(String, Dtype, Vec<usize>)>,
    /// Where each begins in `buffer`.
    offsets: Vec<usize>,
    buffer: Tensor,
}

impl HostTensors {
    /// Copies tensors to the host; their device is waited for once.
    pub fn gather(tensors: &[(String, Tensor)]) -> Result<Self> {
        let entry = |(name, tensor): &(String, Tensor)| {
            let shape = tensor.size().iter().map(|&size| size as usize).collect();
            Ok((name.clone(), dtype(tensor.kind())?, shape))
        };
        let entries = tensors.iter().map(entry).collect::<Result<_>>()?;
        let all: Vec<&Tensor> = tensors.iter().map(|(_, tensor)| tensor).collect();
        let (buffer, offsets) = curricle_torch::gather(&all)
            .map_err(|e| Error::Torch { during: "copying tensors to the host", source: e.into() })?;
        Ok(Self { entries, offsets, buffer })
    }

    /// The tensors and metadata as a safetensors file.
    pub(crate) fn to_bytes(&self, metadata: Option<Metadata>) -> Result<Vec<u8>> {
        // SAFETY: the buffer is contiguous bytes on the host, and nothing writes to it after `gather`.
        let buffer = unsafe { std::slice::from_raw_parts(self.buffer.data_ptr().cast::<u8>(), self.buffer.numel()) };
        let view = |((name, dtype, shape), &offset): (&'_ (String, Dtype, Vec<usize>), &usize)| {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            (name.clone(), TensorBytes { dtype: *dtype, shape: shape.clone(), bytes: &buffer[offset..][..bytes] })
        };
        let views = self.entries.iter().zip(&self.offsets).map(view);
        safetensors::serialize(views, metadata).map_err(Error::encode("tensors"))
    }
}

/// Reads a file's tensors, on the CPU, and its metadata.
pub(crate) fn read(path: &Path) -> Result<(HashMap<String, Tensor>, Metadata)> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let wrong = |e: &dyn std::fmt::Display| Error::format(path, format!("is not a safetensors file: {e}"));
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).map_err(|e| wrong(&e))?;
    let tensors = Tensor::read_safetensors(path).map_err(|e| wrong(&e))?;
    Ok((tensors.into_iter().collect(), header.metadata().clone().unwrap_or_default()))
}

fn dtype(kind: Kind) -> Result<Dtype> {
    Ok(match kind {
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::Half => Dtype::F16,
        Kind::BFloat16 => Dtype::BF16,
        Kind::Int64 => Dtype::I64,
        Kind::Int => Dtype::I32,
        Kind::Int16 => Dtype::I16,
        Kind::Int8 => Dtype::I8,
        Kind::Uint8 => Dtype::U8,
        Kind::Bool => Dtype::BOOL,
        other => return Err(Error::encode("tensors")(format!("type {other:?} is not supported"))),
    })
}

struct TensorBytes<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl View for TensorBytes<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_and_metadata_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]).view([2, 2]).tr();
        let expected: Metadata = [("backbone".to_string(), "conv4".to_string())].into();
        std::fs::write(&path, to_bytes(&[("a.b".into(), tensor.shallow_clone())], Some(expected.clone())).unwrap())
            .unwrap();
        let (tensors, metadata) = read(&path).unwrap();
        assert_eq!(tensors["a.b"], tensor);
        assert_eq!(metadata, expected);
    }
}
