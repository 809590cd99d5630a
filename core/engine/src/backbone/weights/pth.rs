//! PyTorch's `.pth` files: a zip archive since 1.6, a sequence of pickles before.

use super::pickle::{self, Pickle, PickleValue, Storage, Strided};
use crate::device::memory;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::io::{Cursor, Read};
use std::rc::Rc;
use tch::{Kind, Tensor};

/// State dictionaries are not nested deeper than this.
const DEEPEST: usize = 8;
/// The cost limit for visiting all entries: a million of them, or fewer with long names.
const EFFORT: usize = 1_000_000 * ENTRY;
/// The cost of an entry, in addition to the bytes of its name.
const ENTRY: usize = 64;
/// The largest pickle of a file, in bytes; that of a network with a thousand tensors has about 100,000.
const LARGEST_PICKLE: u64 = 64 << 20;
/// How many bytes that no tensor needs are read for the checksums of a file.
const MOST_UNUSED: u64 = 1 << 28;
/// The number that legacy files start with.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The contents of a file.
#[derive(Debug, Default)]
pub(in crate::backbone) struct FileContents {
    /// Tensors by name; the keys of nested dictionaries are joined with dots.
    pub tensors: BTreeMap<String, Tensor>,
    /// Classes of objects that were skipped.
    pub objects: Vec<String>,
}

/// Whether this is a zip archive with a pickle of tensors, and not TorchScript.
pub(super) fn is_zip(bytes: &[u8]) -> bool {
    let Ok(archive) = zip::ZipArchive::new(Cursor::new(bytes)) else { return false };
    let has = |end: &str| archive.file_names().any(|name| name.ends_with(end));
    has("/data.pkl") && !has("/constants.pkl")
}

/// Whether this is a file from before PyTorch 1.6.
pub(super) fn is_legacy(bytes: &[u8]) -> bool {
    // A pickle of one long integer: protocol, LONG1, its length.
    bytes.len() > 15 && bytes[0] == 0x80 && bytes[2] == 0x8a && bytes[4..14] == MAGIC
}

pub(super) fn read_zip(bytes: &[u8]) -> Result<FileContents, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
    let main = archive.file_names().find(|name| name.ends_with("/data.pkl")).unwrap_or("data.pkl").to_string();
    let folder = main.trim_end_matches("data.pkl").to_string();
    // A few compressed bytes can unpack to gigabytes, so no more is kept than is needed. The rest is read for the
    // checksum, which is compared at the end of an entry, unless it is very long.
    let mut rest = MOST_UNUSED;
    let mut entry = |name: &str, limit: u64| -> Result<Vec<u8>, String> {
        let damaged = |e: &dyn Display| format!("its entry `{name}` cannot be read: {e}; download or save it again");
        let mut file = archive.by_name(name).map_err(|e| damaged(&e))?;
        let mut contents = Vec::new();
        file.by_ref().take(limit).read_to_end(&mut contents).map_err(|e| damaged(&e))?;
        rest -= std::io::copy(&mut file.take(rest), &mut std::io::sink()).map_err(|e| damaged(&e))?;
        Ok(contents)
    };
    if let Ok(order) = entry(&format!("{folder}byteorder"), 16)
        && order != b"little"
    {
        return Err("was written on a big-endian machine, which is not supported".into());
    }
    let pickle = entry(&main, LARGEST_PICKLE + 1)?;
    if pickle.len() as u64 > LARGEST_PICKLE {
        return Err(format!("has a list of tensors of more than {} MB", LARGEST_PICKLE >> 20));
    }
    let state = pickle::read(&mut pickle.as_slice())?;
    let mut storages = HashMap::new();
    collect(&state, |storage, bytes| {
        if !storages.contains_key(&storage.key) {
            let contents = entry(&format!("{folder}data/{}", storage.key), bytes)?;
            storages.insert(storage.key.clone(), whole(storage, &contents)?);
        }
        Ok(storages[&storage.key].shallow_clone())
    })
}

pub(super) fn read_legacy(mut bytes: &[u8]) -> Result<FileContents, String> {
    for _header in ["magic number", "version", "machine"] {
        pickle::read(&mut bytes)?;
    }
    let state = pickle::read(&mut bytes)?;
    let keys = pickle::read(&mut bytes)?;
    let PickleValue::List(list) = keys.root else { return Err("has no list of its storages".into()) };
    let mut storages = HashMap::new();
    for key in keys.items(list) {
        let PickleValue::Text(key) = key else { return Err("names a storage by something other than a string".into()) };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or("ends too early")?;
        let storage = state.storages.get(key).ok_or_else(|| format!("has a storage `{key}` that nothing refers to"))?;
        let (_, width) = kind(&storage.class)?;
        let length = usize::try_from(i64::from_le_bytes(*length)).ok().and_then(|n| n.checked_mul(width));
        let (contents, rest) = length.and_then(|n| rest.split_at_checked(n)).ok_or("ends too early")?;
        storages.insert(key.clone(), whole(storage, contents)?);
        bytes = rest;
    }
    collect(&state, |storage, _| {
        storages.get(&storage.key).map(Tensor::shallow_clone).ok_or_else(|| format!("has no storage `{}`", storage.key))
    })
}

/// The tensors of a state dictionary; `storage` reads that many bytes of a storage.
fn collect(
    state: &Pickle,
    mut storage: impl FnMut(&Storage, u64) -> Result<Tensor, String>,
) -> Result<FileContents, String> {
    let mut visit =
        PickleVisit { state, path: Vec::new(), left: EFFORT, tensors: BTreeMap::new(), objects: BTreeSet::new() };
    visit.value(&state.root, Some(""))?;
    let objects = visit.objects.iter().map(ToString::to_string).collect();
    let does_not_fit = |name: &str| format!("its tensor `{name}` does not fit its storage");
    let mut needed: HashMap<&str, u64> = HashMap::new();
    for (name, tensor) in &visit.tensors {
        let bytes =
            extent(tensor).ok_or_else(|| does_not_fit(name))?.checked_mul(kind(&tensor.storage.class)?.1 as u64);
        let bytes = bytes.ok_or_else(|| does_not_fit(name))?;
        let most = needed.entry(&tensor.storage.key).or_default();
        *most = bytes.max(*most);
    }
    let total = needed.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    if let Some(available) = memory::available().filter(|&available| total > available) {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let (total, available) = (gigabytes(total), gigabytes(available));
        return Err(format!("declares tensors of {total:.1} GB; {available:.1} GB of memory are free"));
    }
    let mut tensors = BTreeMap::new();
    for (name, tensor) in &visit.tensors {
        let memory = storage(&tensor.storage, needed[&*tensor.storage.key])?;
        let offset = tensor.storage.offset.checked_add(tensor.offset);
        let view = offset.and_then(|offset| memory.f_as_strided(&tensor.size, &tensor.stride, offset).ok());
        let view = view.ok_or_else(|| does_not_fit(name))?;
        let name = name.clone();
        tensors.insert(name, view);
    }
    Ok(FileContents { tensors, objects })
}

/// How many elements of its storage a tensor reaches; `None` if sizes, strides or offsets are impossible.
fn extent(tensor: &Strided) -> Option<u64> {
    if tensor.size.contains(&0) {
        return Some(0);
    }
    let mut last = tensor.storage.offset.checked_add(tensor.offset)?;
    for (size, stride) in tensor.size.iter().zip(&tensor.stride) {
        last = last.checked_add(size.checked_sub(1)?.checked_mul(*stride)?)?;
    }
    u64::try_from(last).ok()?.checked_add(1)
}

/// A traversal of nested dictionaries.
struct PickleVisit<'a> {
    state: &'a Pickle,
    /// The enclosing dictionaries; one may contain itself.
    path: Vec<usize>,
    /// What remains of `EFFORT`: shared dictionaries can have far more entries than bytes.
    left: usize,
    tensors: BTreeMap<String, Rc<Strided>>,
    objects: BTreeSet<Rc<str>>,
}

impl PickleVisit<'_> {
    /// Values below a key that is not a string have no name.
    fn value(&mut self, value: &PickleValue, name: Option<&str>) -> Result<(), String> {
        match (value, name) {
            (PickleValue::Object(class), _) => drop(self.objects.insert(class.clone())),
            (PickleValue::Tensor(tensor), Some(name)) if !name.is_empty() => {
                self.tensors.insert(name.to_string(), tensor.clone());
            }
            (PickleValue::Dict(dict), _) if self.path.len() < DEEPEST && !self.path.contains(dict) => {
                self.path.push(*dict);
                for [key, value] in self.state.entries(*dict) {
                    let below = match (name, key) {
                        (Some(""), PickleValue::Text(key)) => Some(key.to_string()),
                        (Some(name), PickleValue::Text(key)) => Some(format!("{name}.{key}")),
                        _ => None,
                    };
                    let cost = ENTRY + below.as_ref().map_or(0, String::len);
                    self.left = self.left.checked_sub(cost).ok_or("has more entries than state dictionaries have")?;
                    self.value(value, below.as_deref())?;
                }
                self.path.pop();
            }
            _ => {}
        }
        Ok(())
    }
}

fn whole(storage: &Storage, contents: &[u8]) -> Result<Tensor, String> {
    let (kind, width) = kind(&storage.class)?;
    let length = (contents.len() / width) as i64;
    Tensor::f_from_data_size(&contents[..length as usize * width], &[length], kind).map_err(|e| e.to_string())
}

/// The type of a storage's elements, and their size in bytes.
fn kind(class: &str) -> Result<(Kind, usize), String> {
    Ok(match class.rsplit('.').next().unwrap_or(class) {
        "FloatStorage" => (Kind::Float, 4),
        "DoubleStorage" => (Kind::Double, 8),
        "HalfStorage" => (Kind::Half, 2),
        "BFloat16Storage" => (Kind::BFloat16, 2),
        "LongStorage" => (Kind::Int64, 8),
        "IntStorage" => (Kind::Int, 4),
        "ShortStorage" => (Kind::Int16, 2),
        "CharStorage" => (Kind::Int8, 1),
        "ByteStorage" => (Kind::Uint8, 1),
        "BoolStorage" => (Kind::Bool, 1),
        other => return Err(format!("has tensors of unknown type `{other}`")),
    })
}
