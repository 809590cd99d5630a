//! Loads plugins.

use super::{header, library_file, python};
use crate::last_words;
use curricle_recipe::{PluginFile, Refusal, unsupported_keyword};
use curricle_sdk::host::{Level, set_log_sink};
use curricle_sdk::{Component, abi, guard};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The symbol that a plugin exports.
pub(super) const SYMBOL_NAME: &str = abi::SYMBOL;

/// A loaded plugin.
#[derive(Debug)]
pub struct Plugin {
    /// Absolute path of the file.
    pub path: PathBuf,
    /// Its SHA-256, 64 hexadecimal digits.
    pub sha256: String,
    /// The SDK it was built with, or the Python that runs it.
    pub sdk: String,
    /// Its components, sorted by kind and name.
    pub components: Vec<Component>,
}

impl Plugin {
    /// Path and hash, as recipes and manifests record them.
    pub fn file(&self) -> PluginFile {
        PluginFile { path: self.path.clone(), sha256: self.sha256.clone() }
    }
}

/// Every plugin opened so far. None is ever removed: components point into the libraries.
static OPEN: Mutex<Vec<Arc<Plugin>>> = Mutex::new(Vec::new());

/// Opens a plugin if its SHA-256 matches the pin. Opening the same file again, or a copy of it, gives
/// the same components.
pub fn open(path: &Path, pin: Option<&str>) -> Result<Arc<Plugin>, Refusal> {
    let refuse = |what: String, fix: &str| Refusal::new(path, what, fix);
    let bytes = read(path)?;
    let sha256 = hex(&Sha256::digest(&bytes));
    if let Some(pin) = pin
        && !pin.eq_ignore_ascii_case(&sha256)
    {
        let what = format!("has the SHA-256 `{sha256}`, but the recipe pins `{pin}`");
        return Err(refuse(what, "restore the pinned file, or update the pin after reviewing what changed"));
    }
    let is_python = python::is_python(path);
    if !is_python {
        library_file::check(&bytes).map_err(|(what, fix)| refuse(what, fix))?;
    }
    let absolute = path.canonicalize().map_err(|e| refuse(format!("cannot be found: {e}"), "check its path"))?;

    // Held to the end, so that two threads do not open one file twice.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = open.iter().find(|plugin| plugin.sha256 == sha256) {
        return Ok(Arc::clone(known));
    }
    if open.iter().any(|plugin| plugin.path == absolute) {
        let what = "has changed since this process loaded it, and a loaded plugin cannot be replaced".into();
        return Err(refuse(what, "run the command again"));
    }
    let loaded = if is_python { python::open(path, absolute, sha256) } else { load(path, absolute, sha256) }?;
    check_components(&loaded.components).map_err(|what| refuse(what, "report it to its author"))?;
    let plugin = Arc::new(loaded);
    open.push(Arc::clone(&plugin));
    Ok(plugin)
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let refuse = |what: &str, fix: &str| Err(Refusal::new(path, what, fix));
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse("does not exist", "build it first, or correct the path");
        }
        Err(error) => return refuse(&format!("cannot be read: {error}"), "check its permissions"),
        Ok(about) if about.is_dir() => return refuse("is a folder", "pass the library in it"),
        Ok(about) if !about.is_file() => return refuse("is not a file", "pass the library itself"),
        Ok(_) => {}
    }
    std::fs::read(path).map_err(|error| Refusal::new(path, format!("cannot be read: {error}"), "check its permissions"))
}

fn load(path: &Path, absolute: PathBuf, sha256: String) -> Result<Plugin, Refusal> {
    let refuse = |(what, fix): (String, String)| Refusal::new(path, what, fix);
    log_lines_to_tracing();
    let _running = last_words::loading(path);
    // SAFETY: this runs the library's initialisers, which the user asked for by naming it.
    let library = unsafe { Library::open(Some(&absolute), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let fix = "rebuild it with the libtorch and the compiler of this machine";
        refuse((format!("cannot be loaded: {}", reason(&error, &absolute)), fix.into()))
    })?;
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of a type that is not public")]
    let find = |name: &str| {
        // SAFETY: only its address is taken here.
        unsafe { library.get::<*const std::ffi::c_void>(name.as_bytes()) }.map(|s| s.as_raw_ptr()).ok()
    };
    let symbol = find(SYMBOL_NAME)
        .ok_or_else(|| refuse(without_symbol(abi::OLD_SYMBOLS.into_iter().find(|old| find(old).is_some()))));
    // Never unloaded, so that components, their tables and the library's threads stay valid.
    std::mem::forget(library);
    let symbol = symbol?;
    // SAFETY: the address of the symbol, in a library that is never unloaded.
    let header = unsafe { header::check(symbol) }.map_err(refuse)?;
    let sdk = header::text(header.sdk, "sdk").map_err(refuse)?;
    // SAFETY: its header has just been checked.
    let components = guard(|| unsafe { abi::host::components(header) });
    let report = "report it to its author".to_string();
    let mut components =
        components.map_err(|error| refuse((format!("cannot list its components: {error}"), report)))?;
    components.sort_by_key(|c| (c.kind, c.name));
    Ok(Plugin { path: absolute, sha256, sdk, components })
}

/// What is wrong with a library that does not export the symbol of this version, but perhaps an older one.
fn without_symbol(old: Option<&str>) -> (String, String) {
    match old {
        Some(old) => (
            format!(
                "exports `{old}`, of an earlier version of the plugin interface; this program needs `{SYMBOL_NAME}`"
            ),
            "rebuild it with the SDK of this version of curricle".into(),
        ),
        None => (
            format!("does not export `{SYMBOL_NAME}`, so it is not a curricle plugin"),
            "add `curricle_sdk::export_plugin!();` to its crate root, or `CURRICLE_EXPORT(…)` to one of its C++ files"
                .into(),
        ),
    }
}

/// Checks that there are components, with unique and valid names and valid schemas.
fn check_components(components: &[Component]) -> Result<(), String> {
    if components.is_empty() {
        return Err("has no components".into());
    }
    for component in components {
        let (kind, name) = (component.kind, component.name);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(format!("has a {kind} with the invalid name `{}`", name.escape_debug()));
        }
        let schema = component.factory.schema();
        if schema["type"] != "object" || !schema.get("properties").is_none_or(Value::is_object) {
            return Err(format!("has a {kind} `{name}` whose settings schema does not describe an object"));
        }
        if !schema["properties"]["name"].is_null() {
            return Err(format!("has a {kind} `{name}` with a setting `name`, which recipes could not set"));
        }
        if let Some(keyword) = unsupported_keyword(&schema) {
            return Err(format!("has a {kind} `{name}` whose settings schema uses `{keyword}`, which is not checked"));
        }
    }
    match components.windows(2).find(|pair| (pair[0].kind, pair[0].name) == (pair[1].kind, pair[1].name)) {
        Some(pair) => Err(format!("has two components of kind {} named `{}`", pair[0].kind, pair[0].name)),
        None => Ok(()),
    }
}

/// The loader's message, without the path that it starts with.
fn reason(error: &libloading::Error, path: &Path) -> String {
    let text = match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    };
    text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_string()
}

fn log_lines_to_tracing() {
    set_log_sink(|level, line| match level {
        Level::Debug => tracing::debug!("{line}"),
        Level::Info => tracing::info!("{line}"),
        Level::Warn => tracing::warn!("{line}"),
    });
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8], pin: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libx.so");
        fs_err::write(&path, bytes).unwrap();
        open(&path, pin).unwrap_err().to_string()
    }

    #[test]
    fn missing_files_and_folders_are_refused() {
        let missing = open(Path::new("no/such.so"), None).unwrap_err();
        assert_eq!(missing.to_string(), "plugin `no/such.so` does not exist; build it first, or correct the path");
        assert_eq!(open(Path::new("/"), None).unwrap_err().what, "is a folder");
    }

    #[test]
    fn the_pin_is_checked_first() {
        let sha = hex(&Sha256::digest(b"text"));
        let wrong = refusal(b"text", Some(&"0".repeat(64)));
        assert!(wrong.contains(&format!("has the SHA-256 `{sha}`, but the recipe pins `000")), "{wrong}");
        assert!(refusal(b"text", Some(&sha.to_uppercase())).contains("is not a dynamic library"));
    }

    #[test]
    fn a_library_without_the_symbol_is_not_a_plugin() {
        // libtorch's folder has dynamic libraries that are not plugins.
        let library = crate::device::libtorch::folder().unwrap().join("libc10.so");
        assert!(tch::get_num_threads() > 0);
        let refused = open(&library, None).unwrap_err();
        assert_eq!(refused.what, "does not export `CURRICLE_PLUGIN_V2`, so it is not a curricle plugin");
    }
}
