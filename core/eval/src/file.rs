//! Reads embeddings to evaluate from a safetensors file.

use crate::EvalInput;
use crate::Result;
use crate::space::Space;
use curricle_record as record;
use curricle_sdk::guard;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// The contents of a file with `embeddings [N, D]`, `labels [N]` and optionally `query [N]`.
#[derive(Debug)]
pub struct EmbeddingFile {
    /// `[N, D]`, in the file's precision (f16, bf16, f32 or f64), on the requested device.
    pub embeddings: Tensor,
    /// The class of each sample.
    pub labels: Vec<i64>,
    /// Mask of the samples used as queries, if the file has one.
    pub query: Option<Vec<bool>>,
    /// Whether the norms of the embeddings differ from 1, so that the evaluation normalises them.
    pub needs_normalising: bool,
}

impl EmbeddingFile {
    /// Reads and checks a file.
    pub fn read(path: &Path, device: Device) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(record::Error::file("read", path))?;
        Self::parse(&bytes, device).map_err(|message| record::Error::format(path, message).into())
    }

    /// The input for [`super::evaluate`].
    pub fn input(&self) -> EvalInput<'_> {
        EvalInput { embeddings: &self.embeddings, labels: &self.labels, query: self.query.as_deref() }
    }

    /// Reads and checks the contents of a file.
    pub fn parse(bytes: &[u8], device: Device) -> Result<Self, String> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| format!("is not a safetensors file: {e}"))?;
        let find = |name: &str| file.tensor(name).ok();
        let missing = |name: &str, what: &str| {
            let mut names = file.names();
            names.sort_unstable();
            let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
            format!("has no tensor `{name}` ({what}); it has: {}", names.join(", "))
        };
        let embeddings = find("embeddings").ok_or_else(|| missing("embeddings", "`[samples, dimensions]`, floats"))?;
        let labels = find("labels").ok_or_else(|| missing("labels", "`[samples]`, integers"))?;
        let embeddings = read_floats(&embeddings, device)?;
        let samples = embeddings.size()[0] as usize;
        check_length("labels", &labels, samples)?;
        let labels = read_integers("labels", &labels)?;
        let query = match find("query") {
            None => None,
            Some(query) => {
                check_length("query", &query, samples)?;
                Some(read_flags(&query)?)
            }
        };
        let needs_normalising = Space::new(&embeddings).map_err(|e| e.to_string())?.rescaled;
        Ok(Self { embeddings, labels, query, needs_normalising })
    }
}

fn read_floats(view: &TensorView, device: Device) -> Result<Tensor, String> {
    let kind = match view.dtype() {
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        other => return Err(format!("`embeddings` are {other}; they must be F16, BF16, F32 or F64")),
    };
    let [samples, dimensions] = view.shape() else {
        return Err(format!("`embeddings` has shape {:?}; it must be `[samples, dimensions]`", view.shape()));
    };
    if *samples == 0 || *dimensions == 0 {
        return Err(format!("`embeddings` has shape {:?}: there is nothing to evaluate", view.shape()));
    }
    let size: Vec<i64> = view.shape().iter().map(|&s| s as i64).collect();
    guard(|| Ok(Tensor::f_from_data_size(view.data(), &size, kind)?.f_to_device(device)?)).map_err(|e| e.to_string())
}

fn check_length(name: &str, view: &TensorView, samples: usize) -> Result<(), String> {
    if view.shape() == [samples] {
        return Ok(());
    }
    Err(format!("`{name}` has shape {:?}; it must be `[{samples}]`, one per embedding", view.shape()))
}

fn read_integers(name: &str, view: &TensorView) -> Result<Vec<i64>, String> {
    /// Little-endian numbers of `WIDTH` bytes.
    fn numbers<const WIDTH: usize, T>(data: &[u8], number: fn([u8; WIDTH]) -> T) -> impl Iterator<Item = T> {
        data.as_chunks::<WIDTH>().0.iter().map(move |bytes| number(*bytes))
    }
    let data = view.data();
    Ok(match view.dtype() {
        Dtype::U8 => data.iter().map(|&v| v.into()).collect(),
        Dtype::I8 => numbers(data, i8::from_le_bytes).map(i64::from).collect(),
        Dtype::U16 => numbers(data, u16::from_le_bytes).map(i64::from).collect(),
        Dtype::I16 => numbers(data, i16::from_le_bytes).map(i64::from).collect(),
        Dtype::U32 => numbers(data, u32::from_le_bytes).map(i64::from).collect(),
        Dtype::I32 => numbers(data, i32::from_le_bytes).map(i64::from).collect(),
        // Labels are only compared for equality, so wrapping is harmless.
        Dtype::U64 => numbers(data, u64::from_le_bytes).map(|v| v as i64).collect(),
        Dtype::I64 => numbers(data, i64::from_le_bytes).collect(),
        other => return Err(format!("`{name}` are {other}; they must be integers, e.g. I64")),
    })
}

fn read_flags(view: &TensorView) -> Result<Vec<bool>, String> {
    match view.dtype() {
        Dtype::BOOL | Dtype::U8 => Ok(view.data().iter().map(|&v| v != 0).collect()),
        other => Err(format!("`query` is {other}; it must be BOOL or U8, true for queries")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these tensors: name, type, shape, bytes.
    fn parse(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Result<EmbeddingFile, String> {
        let views = tensors
            .iter()
            .map(|(name, dtype, shape, data)| (*name, TensorView::new(*dtype, shape.to_vec(), data).unwrap()));
        EmbeddingFile::parse(&safetensors::serialize(views, None).unwrap(), Device::Cpu)
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn two_points() -> (&'static str, Dtype, &'static [usize], Vec<u8>) {
        ("embeddings", Dtype::F32, &[2, 2], f32s(&[0.6, 0.8, 1.0, 0.0]))
    }

    #[test]
    fn reads_every_integer_type_and_the_query_mask() {
        for (dtype, width) in [(Dtype::I8, 1), (Dtype::I16, 2), (Dtype::I32, 4), (Dtype::I64, 8)] {
            let minus_one_and_seven: Vec<u8> =
                [-1_i64, 7].iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
            let labels = ("labels", dtype, [2_usize].as_slice(), minus_one_and_seven);
            let query = ("query", Dtype::BOOL, [2_usize].as_slice(), vec![1, 0]);
            let file = parse(&[two_points(), labels, query]).unwrap();
            assert_eq!(file.labels, [-1, 7], "{dtype}");
            assert_eq!(file.query, Some(vec![true, false]));
            assert!(!file.needs_normalising);
        }
        for (dtype, width) in [(Dtype::U8, 1), (Dtype::U16, 2), (Dtype::U32, 4), (Dtype::U64, 8)] {
            let data: Vec<u8> = [200_u64, 3].iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
            let file = parse(&[two_points(), ("labels", dtype, &[2], data)]).unwrap();
            assert_eq!((file.labels, file.query), (vec![200, 3], None), "{dtype}");
        }
    }

    #[test]
    fn half_precision_embeddings_count_as_unit_norm() {
        let unit = Tensor::from_slice(&[0.6_f32, 0.8, 1.0, 0.0]).to_kind(Kind::Half);
        let mut data = vec![0; 8];
        unit.copy_data_u8(&mut data, 4);
        let labels = ("labels", Dtype::U8, [2_usize].as_slice(), vec![0, 1]);
        let file = parse(&[("embeddings", Dtype::F16, &[2, 2], data), labels]).unwrap();
        assert!(!file.needs_normalising);
        assert_eq!(file.embeddings.kind(), Kind::Half);
    }

    #[test]
    fn errors_name_the_tensor_and_the_problem() {
        let labels = || ("labels", Dtype::U8, [2_usize].as_slice(), vec![0, 1]);
        let error = |tensors: &[(&str, Dtype, &[usize], Vec<u8>)]| parse(tensors).unwrap_err();
        assert_eq!(
            error(&[("x", Dtype::U8, &[1], vec![0]), labels()]),
            "has no tensor `embeddings` (`[samples, dimensions]`, floats); it has: `labels`, `x`"
        );
        assert!(error(&[two_points()]).starts_with("has no tensor `labels`"));
        assert!(error(&[("embeddings", Dtype::U8, &[2, 1], vec![0, 1]), labels()]).contains("`embeddings` are U8"));
        assert!(error(&[("embeddings", Dtype::F32, &[2], f32s(&[1.0; 2])), labels()]).contains("has shape [2]"));
        let three = ("labels", Dtype::U8, [3_usize].as_slice(), vec![0; 3]);
        assert_eq!(error(&[two_points(), three]), "`labels` has shape [3]; it must be `[2]`, one per embedding");
        assert!(error(&[two_points(), ("labels", Dtype::F32, &[2], f32s(&[0.0; 2]))]).contains("must be integers"));
        let nan = ("embeddings", Dtype::F32, [2_usize, 1].as_slice(), f32s(&[1.0, f32::NAN]));
        assert!(error(&[nan, labels()]).starts_with("row 1 of the embeddings contains NaN"));
        assert!(EmbeddingFile::parse(b"no such thing", Device::Cpu).unwrap_err().starts_with("is not a safetensors"));
    }
}
