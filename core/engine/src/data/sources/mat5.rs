//! A reader for MATLAB 5 files, as far as annotations need it: cells, structures, strings and numbers.
//!
//! A file is a 128-byte header and a list of elements: type, length, data. An array is an element that
//! contains elements: flags, dimensions, name, contents; it may be compressed.

use flate2::read::ZlibDecoder;
use std::io::Read;

const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;
/// Annotations are nested a few levels; more are a mistake.
const DEEPEST: usize = 8;
/// The most memory a file may take: annotations are small, and more is a mistake or an attack.
const LARGEST: usize = 1 << 29;

/// The contents of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Array {
    /// An array of arrays.
    Cells(Vec<Array>),
    /// Structures with named fields.
    Records(Vec<Vec<(String, Array)>>),
    /// A string.
    Text(String),
    /// Numbers of any type.
    Numbers(Vec<f64>),
}

impl Array {
    /// The string, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Array::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is a single number.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Array::Numbers(numbers) if numbers.len() == 1 => Some(numbers[0]),
            _ => None,
        }
    }
}

/// All named arrays in a file.
pub(super) fn parse(file: &[u8]) -> Result<Vec<(String, Array)>, String> {
    match file.get(124..128) {
        Some([_, 1, b'I', b'M']) => {}
        Some([1, _, b'M', b'I']) => return Err("was written on a big-endian machine, which is not supported".into()),
        _ => return Err("is not a MATLAB 5 file; save it with `-v6` or `-v7`".into()),
    }
    let mut arrays = Vec::new();
    let mut elements = Elements { bytes: &file[128..] };
    let mut budget = LARGEST;
    while let Some(element) = elements.next()? {
        arrays.extend(named_array(&element, 0, &mut budget)?);
    }
    Ok(arrays)
}

struct Element<'a> {
    kind: u32,
    data: &'a [u8],
}

struct Elements<'a> {
    bytes: &'a [u8],
}

impl<'a> Elements<'a> {
    fn next(&mut self) -> Result<Option<Element<'a>>, String> {
        let Some((tag, rest)) = self.bytes.split_first_chunk::<8>() else {
            return if self.bytes.is_empty() { Ok(None) } else { Err(cut_off()) };
        };
        let word = |at: usize| u32::from_le_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]);
        let (kind, length) = (word(0), word(4) as usize);
        if kind >> 16 != 0 {
            // A small element: type and length share the first half of the tag, data is in the second.
            let (kind, length) = (kind & 0xffff, (kind >> 16) as usize);
            let data = self.bytes.get(4..4 + length.min(4)).ok_or_else(cut_off)?;
            self.bytes = rest;
            return Ok(Some(Element { kind, data }));
        }
        let data = rest.get(..length).ok_or_else(cut_off)?;
        let padded = if kind == COMPRESSED { length } else { length.next_multiple_of(8) };
        self.bytes = rest.get(padded..).unwrap_or_default();
        Ok(Some(Element { kind, data }))
    }

    fn need(&mut self, what: &str) -> Result<Element<'a>, String> {
        self.next()?.ok_or_else(|| format!("is damaged: an array has no {what}"))
    }
}

fn cut_off() -> String {
    "is truncated".into()
}

/// Takes bytes from the memory budget of the file.
fn spend(budget: &mut usize, bytes: usize) -> Result<(), String> {
    *budget = budget.checked_sub(bytes).ok_or("is damaged: it needs too much memory")?;
    Ok(())
}

fn named_array(element: &Element, depth: usize, budget: &mut usize) -> Result<Option<(String, Array)>, String> {
    match element.kind {
        COMPRESSED => {
            let mut bytes = Vec::new();
            // One byte over the limit, so that too much data is refused rather than truncated.
            let read = ZlibDecoder::new(element.data).take(*budget as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|e| format!("is damaged: {e}"))?;
            spend(budget, bytes.len())?;
            let inner = Elements { bytes: &bytes }.need("contents")?;
            if inner.kind == COMPRESSED {
                Err("is damaged: an array is compressed twice".into())
            } else {
                named_array(&inner, depth, budget)
            }
        }
        // Empty arrays in cells have no contents.
        MATRIX if element.data.is_empty() => {
            spend(budget, size_of::<(String, Array)>())?;
            Ok(Some((String::new(), Array::Numbers(Vec::new()))))
        }
        MATRIX => array(element.data, depth, budget).map(Some),
        _ => Ok(None),
    }
}

/// The next array inside an array.
fn inner(parts: &mut Elements, depth: usize, budget: &mut usize) -> Result<Array, String> {
    let found = named_array(&parts.need("contents")?, depth, budget)?;
    found.map(|(_, array)| array).ok_or_else(|| "is damaged: an array is missing".into())
}

fn array(bytes: &[u8], depth: usize, budget: &mut usize) -> Result<(String, Array), String> {
    if depth > DEEPEST {
        return Err("has arrays that are nested too deeply".into());
    }
    spend(budget, size_of::<(String, Array)>())?;
    let mut parts = Elements { bytes };
    let class = parts.need("flags")?.data.first().copied().unwrap_or(0);
    let dimensions = numbers(&parts.need("dimensions")?, budget)?;
    let name = parts.need("name")?;
    let name = String::from_utf8_lossy(name.data).into_owned();
    let count = dimensions.iter().product::<f64>() as usize;
    let array = match class {
        1 => {
            let mut cells = Vec::new();
            for _ in 0..count {
                cells.push(inner(&mut parts, depth + 1, budget)?);
            }
            Array::Cells(cells)
        }
        2 => {
            let length = numbers(&parts.need("length of field names")?, budget)?;
            let length = (length.first().copied().unwrap_or(0.0) as usize).max(1);
            let names = parts.need("field names")?.data;
            if names.is_empty() && count > 0 {
                // They take no bytes, so a small file could claim any number of them.
                return Err("has structures without fields".into());
            }
            spend(budget, names.len().div_ceil(length).saturating_mul(size_of::<String>()))?;
            // Every structure copies the names.
            spend(budget, names.len().saturating_mul(count))?;
            let names: Vec<String> = names
                .chunks(length)
                .map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_string())
                .collect();
            let mut records = Vec::new();
            for _ in 0..count {
                let record = names.iter().map(|name| Ok((name.clone(), inner(&mut parts, depth + 1, budget)?)));
                records.push(record.collect::<Result<_, String>>()?);
            }
            Array::Records(records)
        }
        4 => Array::Text(text(&parts.need("text")?, budget)?),
        6..=15 => Array::Numbers(numbers(&parts.need("numbers")?, budget)?),
        other => return Err(format!("has an array of class {other}, which is not supported")),
    };
    Ok((name, array))
}

fn text(element: &Element, budget: &mut usize) -> Result<String, String> {
    spend(budget, element.data.len())?;
    match element.kind {
        // Bytes are Latin-1 by the specification and UTF-8 in practice.
        1 | 2 | 16 => Ok(String::from_utf8_lossy(element.data).into_owned()),
        4 | 17 => {
            let units: Vec<u16> = element.data.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
            Ok(String::from_utf16_lossy(&units))
        }
        other => Err(format!("has a string of type {other}, which is not supported")),
    }
}

fn numbers(element: &Element, budget: &mut usize) -> Result<Vec<f64>, String> {
    type Numbers = Result<Vec<f64>, String>;
    fn each<const N: usize>(data: &[u8], budget: &mut usize, convert: impl Fn([u8; N]) -> f64) -> Numbers {
        let numbers = data.as_chunks::<N>().0;
        spend(budget, numbers.len().saturating_mul(size_of::<f64>()))?;
        Ok(numbers.iter().map(|bytes| convert(*bytes)).collect())
    }
    let data = element.data;
    match element.kind {
        1 => each(data, budget, |[b]| f64::from(b as i8)),
        2 => each(data, budget, |[b]| f64::from(b)),
        3 => each(data, budget, |b| f64::from(i16::from_le_bytes(b))),
        4 => each(data, budget, |b| f64::from(u16::from_le_bytes(b))),
        5 => each(data, budget, |b| f64::from(i32::from_le_bytes(b))),
        6 => each(data, budget, |b| f64::from(u32::from_le_bytes(b))),
        7 => each(data, budget, |b| f64::from(f32::from_le_bytes(b))),
        9 => each(data, budget, f64::from_le_bytes),
        12 => each(data, budget, |b| i64::from_le_bytes(b) as f64),
        13 => each(data, budget, |b| u64::from_le_bytes(b) as f64),
        other => Err(format!("has numbers of type {other}, which is not supported")),
    }
}

/// Writes small files for tests.
#[cfg(test)]
pub(super) mod write {
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;

    /// A file with these arrays, each compressed.
    pub(crate) fn file(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut file = vec![b' '; 124];
        file.extend([0, 1, b'I', b'M']);
        for (name, contents) in arrays {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&named(name, contents)).unwrap();
            let bytes = encoder.finish().unwrap();
            file.extend(15u32.to_le_bytes());
            file.extend((bytes.len() as u32).to_le_bytes());
            file.extend(bytes);
        }
        file
    }

    /// An element with its tag.
    pub(crate) fn element(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    /// Class, number of elements, and what follows the name; `named` inserts the name.
    pub(crate) fn contents(class: u8, count: usize, rest: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = element(6, &[class, 0, 0, 0, 0, 0, 0, 0]);
        let dimensions = [1u32.to_le_bytes(), (count as u32).to_le_bytes()].concat();
        bytes.extend(element(5, &dimensions));
        bytes.extend(rest.concat());
        bytes
    }

    fn named(name: &str, contents: &[u8]) -> Vec<u8> {
        // Flags and dimensions take 16 bytes each.
        let (front, rest) = contents.split_at(32);
        element(14, &[front, &element(1, name.as_bytes()), rest].concat())
    }

    /// A UTF-16 string, as MATLAB writes it; short ones in a small element.
    pub(crate) fn text(text: &str) -> Vec<u8> {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let characters = if units.len() <= 4 {
            let mut small = 4u16.to_le_bytes().to_vec();
            small.extend((units.len() as u16).to_le_bytes());
            small.extend(&units);
            small.resize(8, 0);
            small
        } else {
            element(4, &units)
        };
        contents(4, text.len(), &[characters])
    }

    /// A number in one byte.
    pub(crate) fn number(number: u8) -> Vec<u8> {
        let mut small = 2u16.to_le_bytes().to_vec();
        small.extend(1u16.to_le_bytes());
        small.extend([number, 0, 0, 0]);
        contents(9, 1, &[small])
    }

    /// A row of cells.
    pub(crate) fn cells(cells: &[Vec<u8>]) -> Vec<u8> {
        let inner: Vec<_> = cells.iter().map(|cell| named("", cell)).collect();
        contents(1, cells.len(), &inner)
    }

    /// A row of structures with these fields.
    pub(crate) fn records(fields: &[&str], records: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let names: Vec<u8> = fields
            .iter()
            .flat_map(|name| {
                let mut bytes = name.as_bytes().to_vec();
                bytes.resize(32, 0);
                bytes
            })
            .collect();
        let mut length = 5u16.to_le_bytes().to_vec();
        length.extend(4u16.to_le_bytes());
        length.extend(32u32.to_le_bytes());
        let mut rest = vec![length, element(1, &names)];
        rest.extend(records.iter().flatten().map(|value| named("", value)));
        contents(2, records.len(), &rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_structures_strings_and_numbers_are_read() {
        let records = write::records(
            &["class", "fname"],
            &[vec![write::number(3), write::text("00001.jpg")], vec![write::number(200), write::text("é")]],
        );
        let file = write::file(&[("annotations", records), ("names", write::cells(&[write::text("AM General")]))]);
        let arrays = parse(&file).unwrap();
        assert_eq!(arrays[1], ("names".into(), Array::Cells(vec![Array::Text("AM General".into())])));
        let Array::Records(records) = &arrays[0].1 else { panic!("{arrays:?}") };
        assert_eq!(
            records[0],
            [("class".to_string(), Array::Numbers(vec![3.0])), ("fname".to_string(), Array::Text("00001.jpg".into()))]
        );
        assert_eq!((records[1][0].1.number(), records[1][1].1.text()), (Some(200.0), Some("é")));
    }

    #[test]
    fn damaged_files_are_refused_without_a_panic() {
        assert!(parse(b"hello").unwrap_err().starts_with("is not a MATLAB 5 file"));
        let file = write::file(&[("a", write::cells(&[write::text("some text"), write::number(1)]))]);
        for length in 129..file.len() {
            assert!(parse(&file[..length]).is_err(), "{length}");
        }
        for position in 128..file.len() {
            let mut damaged = file.clone();
            damaged[position] ^= 0x55;
            // The result does not matter, as long as nothing panics.
            let _ = parse(&damaged);
        }
    }

    #[test]
    fn structures_without_fields_are_refused() {
        let length = write::element(5, &32u32.to_le_bytes());
        let records = |count| write::contents(2, count, &[length.clone(), write::element(1, b"")]);
        // Two billion empty ones would take 50 GB.
        let many = write::file(&[("annotations", records(u32::MAX as usize >> 1))]);
        assert_eq!(parse(&many).unwrap_err(), "has structures without fields");
        let none = write::file(&[("annotations", records(0))]);
        assert_eq!(parse(&none).unwrap(), [("annotations".to_string(), Array::Records(Vec::new()))]);
    }

    #[test]
    fn small_files_cannot_become_large_arrays() {
        let too_much = "is damaged: it needs too much memory";
        // Each byte takes eight bytes in memory and compresses to almost nothing in the file.
        let count = LARGEST / 8;
        let numbers = write::file(&[("a", write::contents(9, count, &[write::element(2, &vec![0; count])]))]);
        assert!(numbers.len() < 1 << 20);
        assert_eq!(parse(&numbers).unwrap_err(), too_much);
        // A long field name, which every structure repeats.
        let (length, count) = (1 << 20, 1 << 9);
        let mut parts = vec![write::element(5, &(length as u32).to_le_bytes()), write::element(1, &vec![b'a'; length])];
        parts.resize(parts.len() + count, write::element(14, b""));
        let records = write::file(&[("a", write::contents(2, count, &parts))]);
        assert_eq!(parse(&records).unwrap_err(), too_much);
    }

    #[test]
    fn all_arrays_share_one_memory_budget() {
        let mut budget = 1000;
        let bytes = write::element(2, &[0; 100]);
        let element = Elements { bytes: &bytes }.need("numbers").unwrap();
        assert_eq!(numbers(&element, &mut budget).unwrap().len(), 100);
        assert!(numbers(&element, &mut budget).is_err());
    }
}
