//! Safetensors files with metadata.

use crate::{Error, Result};
use safetensors::{Dtype, View};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// The metadata of a safetensors file.
pub(crate) type Metadata = HashMap<String, String>;

/// Serialises tensors and metadata as a safetensors file.
pub(crate) fn to_bytes(tensors: &[(String, Tensor)], metadata: Option<Metadata>) -> Result<Vec<u8>> {
    let entries = tensors.iter().map(|(name, tensor)| Ok((name.as_str(), TensorBytes::new(tensor)?)));
    let entries = entries.collect::<Result<Vec<_>>>()?;
    safetensors::serialize(entries, metadata).map_err(Error::encode("tensors"))
}

/// Reads a file's tensors, on the CPU, and its metadata.
pub(crate) fn read(path: &Path) -> Result<(HashMap<String, Tensor>, Metadata)> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let wrong = |e: &dyn std::fmt::Display| Error::format(path, format!("is not a safetensors file: {e}"));
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).map_err(|e| wrong(&e))?;
    let tensors = Tensor::read_safetensors(path).map_err(|e| wrong(&e))?;
    Ok((tensors.into_iter().collect(), header.metadata().clone().unwrap_or_default()))
}

struct TensorBytes {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl TensorBytes {
    fn new(tensor: &Tensor) -> Result<Self> {
        let failed = |e: tch::TchError| Error::Torch { during: "writing tensors", source: e.into() };
        let dtype = match tensor.kind() {
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
        };
        let on_cpu = tensor.detach().f_to_device(Device::Cpu).and_then(|t| t.f_contiguous()).map_err(failed)?;
        let count = on_cpu.numel();
        let mut bytes = vec![0; count * on_cpu.kind().elt_size_in_bytes()];
        on_cpu.f_copy_data_u8(&mut bytes, count).map_err(failed)?;
        Ok(Self { dtype, shape: on_cpu.size().iter().map(|&size| size as usize).collect(), bytes })
    }
}

impl View for TensorBytes {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
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
