//! PyTorch's `.pth` files: a zip archive since 1.6, a row of pickles before.

use super::pickle::{self, Pickle, Storage, Strided, Value};
use std::collections::{BTreeMap, HashMap};
use std::io::{Cursor, Read};
use std::rc::Rc;
use tch::{Kind, Tensor};

/// State dictionaries are not nested deeper than this.
const DEEPEST: usize = 8;
/// The number that old files begin with.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// By name; those of nested dictionaries have the names of all joined with dots.
    pub tensors: BTreeMap<String, Tensor>,
    /// Classes of objects that were passed over.
    pub objects: Vec<String>,
}

/// Whether this is a zip archive with a pickle of tensors, and not one of TorchScript.
pub(super) fn is_zip(bytes: &[u8]) -> bool {
    let Ok(archive) = zip::ZipArchive::new(Cursor::new(bytes)) else { return false };
    let has = |end: &str| archive.file_names().any(|name| name.ends_with(end));
    has("/data.pkl") && !has("/constants.pkl")
}

/// Whether this is a file from before PyTorch 1.6.
pub(super) fn is_legacy(bytes: &[u8]) -> bool {
    // A pickle of one long number: protocol, LONG1, its length.
    bytes.len() > 15 && bytes[0] == 0x80 && bytes[2] == 0x8a && bytes[4..14] == MAGIC
}

pub(super) fn read_zip(bytes: &[u8]) -> Result<Contents, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
    let main = archive.file_names().find(|name| name.ends_with("/data.pkl")).unwrap_or("data.pkl").to_string();
    let folder = main.trim_end_matches("data.pkl").to_string();
    let mut entry = |name: &str| -> Result<Vec<u8>, String> {
        let mut file = archive.by_name(name).map_err(|e| format!("its part `{name}` cannot be read: {e}"))?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents).map_err(|e| format!("its part `{name}` cannot be read: {e}"))?;
        Ok(contents)
    };
    if let Ok(order) = entry(&format!("{folder}byteorder"))
        && order != b"little"
    {
        return Err("was written on a big-endian machine".into());
    }
    let pickle = entry(&main)?;
    let root = pickle::read(&mut pickle.as_slice())?.root;
    let mut storages = HashMap::new();
    collect(&root, |storage| {
        if !storages.contains_key(&storage.key) {
            let contents = entry(&format!("{folder}data/{}", storage.key))?;
            storages.insert(storage.key.clone(), whole(storage, &contents)?);
        }
        Ok(storages[&storage.key].shallow_clone())
    })
}

pub(super) fn read_legacy(mut bytes: &[u8]) -> Result<Contents, String> {
    for _header in ["magic number", "version", "machine"] {
        pickle::read(&mut bytes)?;
    }
    let Pickle { root, storages: classes } = pickle::read(&mut bytes)?;
    let Value::List(keys) = pickle::read(&mut bytes)?.root else { return Err("has no list of its storages".into()) };
    let mut storages = HashMap::new();
    for key in keys.borrow().iter() {
        let Value::Text(key) = key else { return Err("names a storage by something else than text".into()) };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or("ends too early")?;
        let storage = classes.get(key).ok_or_else(|| format!("has a storage `{key}` that nothing refers to"))?;
        let (_, width) = kind(&storage.class)?;
        let length = usize::try_from(i64::from_le_bytes(*length)).ok().and_then(|n| n.checked_mul(width));
        let (contents, rest) = length.and_then(|n| rest.split_at_checked(n)).ok_or("ends too early")?;
        storages.insert(key.clone(), whole(storage, contents)?);
        bytes = rest;
    }
    collect(&root, |storage| {
        storages.get(&storage.key).map(Tensor::shallow_clone).ok_or_else(|| format!("has no storage `{}`", storage.key))
    })
}

fn collect(root: &Value, mut storage: impl FnMut(&Storage) -> Result<Tensor, String>) -> Result<Contents, String> {
    let mut contents = Contents::default();
    let mut objects = Vec::new();
    visit_objects(root, 0, &mut objects);
    objects.sort_unstable();
    objects.dedup();
    contents.objects = objects.iter().map(ToString::to_string).collect();
    visit(root, "", 0, &mut |name, tensor| {
        let memory = storage(&tensor.storage)?;
        let offset = tensor.storage.offset + tensor.offset;
        let view = memory.f_as_strided(&tensor.size, &tensor.stride, offset);
        let view = view.map_err(|_| format!("its tensor `{name}` does not fit its storage"))?;
        contents.tensors.insert(name.to_string(), view);
        Ok(())
    })?;
    Ok(contents)
}

/// Every tensor in dictionaries and dictionaries of dictionaries.
fn visit(
    value: &Value,
    name: &str,
    depth: usize,
    found: &mut dyn FnMut(&str, &Strided) -> Result<(), String>,
) -> Result<(), String> {
    match value {
        Value::Tensor(tensor) if !name.is_empty() => found(name, tensor),
        Value::Dict(entries) if depth < DEEPEST => {
            for (key, value) in entries.borrow().iter() {
                let Value::Text(key) = key else { continue };
                let below = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                visit(value, &below, depth + 1, found)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn visit_objects(value: &Value, depth: usize, found: &mut Vec<Rc<str>>) {
    match value {
        Value::Object(class) => found.push(class.clone()),
        Value::Dict(entries) if depth < DEEPEST => {
            entries.borrow().iter().for_each(|(_, value)| visit_objects(value, depth + 1, found));
        }
        _ => {}
    }
}

fn whole(storage: &Storage, contents: &[u8]) -> Result<Tensor, String> {
    let (kind, width) = kind(&storage.class)?;
    let length = (contents.len() / width) as i64;
    Tensor::f_from_data_size(&contents[..length as usize * width], &[length], kind).map_err(|e| e.to_string())
}

/// The type of a storage's elements, and their size in bytes.
fn kind(class: &str) -> Result<(Kind, usize), String> {
    Ok(match class {
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
        other => return Err(format!("has tensors of the unknown type `{other}`")),
    })
}
