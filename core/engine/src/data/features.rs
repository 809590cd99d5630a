//! `features`: precomputed backbone features from a safetensors file.
//!
//! | tensor | type | meaning |
//! |---|---|---|
//! | `features [N,F]` | f16, bf16, f32 or f64 | the network's inputs; read as f32 |
//! | `labels [N]` | any integer type | the class of each row; any integers, classes are in ascending order |
//! | `paths` (optional) | u8 | a name for each row: UTF-8, one line each |
//!
//! safetensors has no strings. Instead of the tensor, `paths` may be an entry of the file's metadata
//! that holds a JSON array of N strings. Without paths the rows are named `row 0`, `row 1`, ….

use super::class_split::FEWEST_CLASSES;
use super::{Inputs, Split};
use crate::{Error, Result};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::path::Path;
use tch::{Kind, Tensor};

/// Reads the whole file, before any split.
pub(super) fn read(path: &Path) -> Result<Split> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    parse(&bytes).map_err(|message| Error::format(path, message))
}

/// Errors are phrases that follow the file's name.
fn parse(bytes: &[u8]) -> Result<Split, String> {
    let not_ours = |e| {
        format!(
            "is not a safetensors file: {e}\nhelp: save it with `safetensors.torch.save_file({{\"features\": …, \
             \"labels\": …}}, \"features.safetensors\")`"
        )
    };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_ours)?;
    let file = SafeTensors::deserialize(bytes).map_err(not_ours)?;

    let features = read_features(&tensor(&file, "features")?)?;
    let rows = features.size()[0] as usize;
    let values = read_labels(&tensor(&file, "labels")?, rows)?;
    let text_entry = header.metadata().as_ref().and_then(|texts| texts.get("paths"));
    let paths = match (file.tensor("paths"), text_entry) {
        (Ok(_), Some(_)) => return Err("has `paths` twice, as a tensor and in the metadata; remove one of them".into()),
        (Ok(lines), None) => paths_from_lines(&lines)?,
        (Err(_), Some(json)) => serde_json::from_str(json)
            .map_err(|e| format!("the metadata entry `paths` must be a JSON array of strings: {e}"))?,
        (Err(_), None) => (0..rows).map(|row| format!("row {row}")).collect(),
    };
    if paths.len() != rows {
        return Err(format!("has {} `paths` for {rows} rows of `features`; every row needs one", paths.len()));
    }

    let mut classes = values.clone();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() < FEWEST_CLASSES {
        return Err(format!(
            "needs at least {FEWEST_CLASSES} different `labels`, two to train and two to test, but has {}",
            classes.len()
        ));
    }
    let labels = values.iter().map(|value| classes.partition_point(|class| class < value) as i64).collect();
    let class_names = classes.iter().map(i64::to_string).collect();
    Ok(Split { inputs: Inputs::Features(features), labels, class_names, paths })
}

fn tensor<'a>(file: &SafeTensors<'a>, name: &str) -> Result<TensorView<'a>, String> {
    file.tensor(name).map_err(|_| {
        let mut names = file.names();
        names.sort_unstable();
        let found = if names.is_empty() { "none".into() } else { format!("`{}`", names.join("`, `")) };
        format!("has no tensor `{name}`; `features [N,F]` and `labels [N]` are required, tensors found: {found}")
    })
}

fn read_features(view: &TensorView) -> Result<Tensor, String> {
    let kind = match view.dtype() {
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        other => return Err(format!("`features` has type {other:?}; it must be F16, BF16, F32 or F64")),
    };
    let &[rows, columns] = view.shape() else {
        return Err(format!("`features` has shape {:?}; it must be two-dimensional, [N,F]", view.shape()));
    };
    if rows == 0 || columns == 0 {
        return Err(format!("`features` is empty: its shape is [{rows}, {columns}]"));
    }
    let read = || {
        let features = Tensor::f_from_data_size(view.data(), &[rows as i64, columns as i64], kind)?;
        let features = features.f_to_kind(Kind::Float)?;
        let bad = features.f_isfinite()?.f_all_dim(1, false)?.f_logical_not()?.f_nonzero()?;
        let first_bad = if bad.size()[0] > 0 { Some(bad.f_int64_value(&[0, 0])?) } else { None };
        Ok((features, first_bad))
    };
    let (features, first_bad) = read().map_err(|e: tch::TchError| {
        let e: curricle_sdk::Error = e.into();
        format!("`features` cannot be loaded: {e}")
    })?;
    match first_bad {
        Some(row) => Err(format!("row {row} of `features` is not finite in f32 (NaN or too large); remove or fix it")),
        None => Ok(features),
    }
}

fn read_labels(view: &TensorView, rows: usize) -> Result<Vec<i64>, String> {
    if view.shape() != [rows] {
        return Err(format!("`labels` has shape {:?}; it must be [{rows}], one label per row", view.shape()));
    }
    let data = view.data();
    match view.dtype() {
        Dtype::U8 | Dtype::BOOL => Ok(numbers(data, |[byte]| byte)),
        Dtype::I8 => Ok(numbers(data, i8::from_le_bytes)),
        Dtype::U16 => Ok(numbers(data, u16::from_le_bytes)),
        Dtype::I16 => Ok(numbers(data, i16::from_le_bytes)),
        Dtype::U32 => Ok(numbers(data, u32::from_le_bytes)),
        Dtype::I32 => Ok(numbers(data, i32::from_le_bytes)),
        Dtype::I64 => Ok(numbers(data, i64::from_le_bytes)),
        Dtype::U64 => {
            let (chunks, _) = data.as_chunks();
            let values = chunks.iter().map(|bytes| i64::try_from(u64::from_le_bytes(*bytes)));
            values.collect::<Result<_, _>>().map_err(|_| "`labels` has values that do not fit into I64".into())
        }
        other => Err(format!("`labels` has type {other:?}; it must be an integer type")),
    }
}

/// Decodes little-endian integers of one type.
fn numbers<const SIZE: usize, T: Into<i64>>(data: &[u8], from_bytes: fn([u8; SIZE]) -> T) -> Vec<i64> {
    data.as_chunks().0.iter().map(|bytes| from_bytes(*bytes).into()).collect()
}

fn paths_from_lines(view: &TensorView) -> Result<Vec<String>, String> {
    if view.dtype() != Dtype::U8 {
        return Err(format!("`paths` has type {:?}; it must be U8: UTF-8 text, one line per row", view.dtype()));
    }
    let text = std::str::from_utf8(view.data()).map_err(|e| format!("`paths` is not UTF-8: {e}"))?;
    Ok(text.lines().map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    type Entry<'a> = (&'a str, Dtype, Vec<usize>, Vec<u8>);

    fn file(entries: &[Entry], metadata: Option<(&str, &str)>) -> Vec<u8> {
        let views = entries.iter().map(|(name, kind, shape, bytes)| {
            (name.to_string(), TensorView::new(*kind, shape.clone(), bytes).unwrap())
        });
        let metadata = metadata.map(|(key, text)| HashMap::from([(key.to_string(), text.to_string())]));
        safetensors::serialize(views, metadata).unwrap()
    }

    fn features(rows: &[f32]) -> Entry<'static> {
        ("features", Dtype::F32, vec![rows.len(), 1], rows.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    fn labels(values: &[i64]) -> Entry<'static> {
        ("labels", Dtype::I64, vec![values.len()], values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    fn problem(entries: &[Entry], metadata: Option<(&str, &str)>) -> String {
        parse(&file(entries, metadata)).unwrap_err()
    }

    const ROWS: [f32; 5] = [0.0, 1.0, 2.0, 3.0, 4.0];
    const LABELS: [i64; 5] = [70, -3, 5, 5, 6];

    #[test]
    fn labels_are_renumbered_in_ascending_order() {
        let split = parse(&file(&[features(&ROWS), labels(&LABELS)], None)).unwrap();
        assert_eq!(split.labels, [3, 0, 1, 1, 2]);
        assert_eq!(split.class_names, ["-3", "5", "6", "70"]);
        assert_eq!(split.paths[4], "row 4");
        assert_eq!(Vec::<f32>::try_from(split.inputs.tensor().unwrap().flatten(0, -1)).unwrap(), ROWS);
    }

    #[test]
    fn every_float_and_integer_type_is_read() {
        let half = [0x0000u16, 0x3c00, 0x4000, 0x4200, 0x4400].iter().flat_map(|v| v.to_le_bytes()).collect();
        let bfloat = [0x0000u16, 0x3f80, 0x4000, 0x4040, 0x4080].iter().flat_map(|v| v.to_le_bytes()).collect();
        let double = ROWS.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
        for (kind, bytes) in [(Dtype::F16, half), (Dtype::BF16, bfloat), (Dtype::F64, double)] {
            let split = parse(&file(&[("features", kind, vec![5, 1], bytes), labels(&LABELS)], None)).unwrap();
            assert_eq!(Vec::<f32>::try_from(split.inputs.tensor().unwrap().flatten(0, -1)).unwrap(), ROWS, "{kind:?}");
        }
        for (kind, size) in [
            (Dtype::U8, 1),
            (Dtype::I8, 1),
            (Dtype::U16, 2),
            (Dtype::I16, 2),
            (Dtype::U32, 4),
            (Dtype::I32, 4),
            (Dtype::U64, 8),
            (Dtype::I64, 8),
        ] {
            let bytes = [9u64, 8, 7, 6, 9].iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect();
            let split = parse(&file(&[features(&ROWS), ("labels", kind, vec![5], bytes)], None)).unwrap();
            assert_eq!(split.labels, [3, 2, 1, 0, 3], "{kind:?}");
        }
    }

    #[test]
    fn paths_come_from_a_tensor_or_from_the_metadata() {
        let text = b"a.jpg\nb.jpg\nc.jpg\nd, e.jpg\nf.jpg\n";
        let tensor = ("paths", Dtype::U8, vec![text.len()], text.to_vec());
        let split = parse(&file(&[features(&ROWS), labels(&LABELS), tensor.clone()], None)).unwrap();
        assert_eq!(split.paths[3], "d, e.jpg");
        let json = r#"["a","b","c","d\n","e"]"#;
        let split = parse(&file(&[features(&ROWS), labels(&LABELS)], Some(("paths", json)))).unwrap();
        assert_eq!(split.paths[3], "d\n");
        let twice = problem(&[features(&ROWS), labels(&LABELS), tensor], Some(("paths", json)));
        assert!(twice.starts_with("has `paths` twice"), "{twice}");
        let few = problem(&[features(&ROWS), labels(&LABELS)], Some(("paths", r#"["a"]"#)));
        assert!(few.starts_with("has 1 `paths` for 5 rows"), "{few}");
        let broken = problem(&[features(&ROWS), labels(&LABELS)], Some(("paths", "a,b")));
        assert!(broken.starts_with("the metadata entry `paths` must be a JSON array"), "{broken}");
    }

    #[test]
    fn invalid_files_are_refused_with_the_reason() {
        let wrong_rank = ("features", Dtype::F32, vec![5], vec![0; 20]);
        let integers = ("features", Dtype::I32, vec![5, 1], vec![0; 20]);
        let floats = ("labels", Dtype::F32, vec![5], vec![0; 20]);
        for (entries, expected) in [
            (
                vec![labels(&LABELS)],
                "has no tensor `features`; `features [N,F]` and `labels [N]` are required, tensors found: `labels`",
            ),
            (vec![features(&ROWS)], "has no tensor `labels`"),
            (vec![wrong_rank, labels(&LABELS)], "`features` has shape [5]; it must be two-dimensional, [N,F]"),
            (vec![integers, labels(&LABELS)], "`features` has type I32"),
            (vec![features(&[]), labels(&[])], "`features` is empty"),
            (vec![features(&ROWS), labels(&[1, 2])], "`labels` has shape [2]; it must be [5]"),
            (vec![features(&ROWS), floats], "`labels` has type F32; it must be an integer type"),
            (
                vec![features(&[0.0, 1.0, f32::NAN, 3.0, f32::NAN]), labels(&LABELS)],
                "row 2 of `features` is not finite",
            ),
            (vec![features(&ROWS), labels(&[1, 1, 1, 1, 1])], "needs at least 4 different `labels`"),
        ] {
            let message = problem(&entries, None);
            assert!(message.starts_with(expected), "{message}");
        }
        assert!(parse(b"PK").unwrap_err().starts_with("is not a safetensors file"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let message = read(Path::new("no/such.safetensors")).unwrap_err().to_string();
        assert!(message.starts_with("cannot read `no/such.safetensors`"), "{message}");
    }
}
