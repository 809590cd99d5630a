//! PyTorch's `.pth` files: a zip archive since 1.6, a sequence of pickles before.

use super::pickle::{self, Pickle, PickleValue, Storage, Strided};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Cursor, Read};
use std::rc::Rc;
use tch::{Kind, Tensor};

/// State dictionaries are not nested deeper than this.
const DEEPEST: usize = 8;
/// The cost limit for visiting all entries: a million of them, or fewer with long names.
const EFFORT: usize = 1_000_000 * ENTRY;
/// The cost of an entry, in addition to the bytes of its name.
const ENTRY: usize = 64;
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
    let mut entry = |name: &str| -> Result<Vec<u8>, String> {
        let mut file = archive.by_name(name).map_err(|e| format!("its entry `{name}` cannot be read: {e}"))?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents).map_err(|e| format!("its entry `{name}` cannot be read: {e}"))?;
        Ok(contents)
    };
    if let Ok(order) = entry(&format!("{folder}byteorder"))
        && order != b"little"
    {
        return Err("was written on a big-endian machine, which is not supported".into());
    }
    let state = pickle::read(&mut entry(&main)?.as_slice())?;
    let mut storages = HashMap::new();
    collect(&state, |storage| {
        if !storages.contains_key(&storage.key) {
            let contents = entry(&format!("{folder}data/{}", storage.key))?;
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
    collect(&state, |storage| {
        storages.get(&storage.key).map(Tensor::shallow_clone).ok_or_else(|| format!("has no storage `{}`", storage.key))
    })
}

fn collect(
    state: &Pickle,
    mut storage: impl FnMut(&Storage) -> Result<Tensor, String>,
) -> Result<FileContents, String> {
    let mut visit =
        PickleVisit { state, path: Vec::new(), left: EFFORT, tensors: BTreeMap::new(), objects: BTreeSet::new() };
    visit.value(&state.root, Some(""))?;
    let objects = visit.objects.iter().map(ToString::to_string).collect();
    let mut tensors = BTreeMap::new();
    for (name, tensor) in visit.tensors {
        let memory = storage(&tensor.storage)?;
        let offset = tensor.storage.offset.checked_add(tensor.offset);
        let view = offset.and_then(|offset| memory.f_as_strided(&tensor.size, &tensor.stride, offset).ok());
        let view = view.ok_or_else(|| format!("its tensor `{name}` does not fit its storage"))?;
        tensors.insert(name, view);
    }
    Ok(FileContents { tensors, objects })
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
