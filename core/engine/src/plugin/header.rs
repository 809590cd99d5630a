//! Validates a plugin's header before anything in the library is called.

use crate::device::libtorch;
use curricle_sdk::abi::{ABI_MAJOR, LIBTORCH_VERSION, MAGIC, Plugin, Str, TARGET, TCH_VERSION};
use std::ffi::c_void;
use std::mem::offset_of;

/// What is wrong with a header, and what to do.
pub(super) type HeaderFlaw = (String, String);

/// Maximum length of a string in a header; a longer one means that the header is broken.
const LONGEST: usize = 256;

/// Checks the record that a library exports.
///
/// # Safety
/// `symbol` must be the address of a data symbol in a library that stays loaded.
pub(super) unsafe fn check(symbol: *const c_void) -> Result<&'static Plugin, HeaderFlaw> {
    let bytes = symbol.cast::<u8>();
    // SAFETY: the field is within the record; anything exported under this name has a first field.
    let magic = unsafe { read::<[u8; 8]>(bytes, offset_of!(Plugin, magic)) };
    if magic != MAGIC {
        let found = magic.escape_ascii();
        let what =
            format!("exports `{}`, but it starts with `{found}` instead of `CURRICLE`", super::load::SYMBOL_NAME);
        return Err((what, "export it with `curricle_sdk::export_plugin!()` or `CURRICLE_EXPORT`".into()));
    }
    // SAFETY: with the right magic this is a record of curricle's, and these are its first fields.
    let (major, minor, size) = unsafe {
        (
            read::<u32>(bytes, offset_of!(Plugin, abi_major)),
            read::<u32>(bytes, offset_of!(Plugin, abi_minor)),
            read::<usize>(bytes, offset_of!(Plugin, size)),
        )
    };
    if major != ABI_MAJOR {
        let what = format!("uses version {major}.{minor} of the plugin ABI; this program uses version {ABI_MAJOR}");
        return Err((what, "rebuild it with the SDK of this version of curricle".into()));
    }
    if size < Plugin::MINIMUM {
        let what = format!("has a header of {size} bytes; it must have at least {}", Plugin::MINIMUM);
        return Err((what, "set `size` in its header to `sizeof(curricle_plugin)`".into()));
    }
    if !symbol.cast::<Plugin>().is_aligned() {
        return Err(("has a header that is not aligned".into(), "do not pack the record".into()));
    }
    // SAFETY: it is aligned and large enough, and lives as long as the process.
    let plugin = unsafe { &*symbol.cast::<Plugin>() };
    if plugin.visit.is_none() {
        return Err(("has a null `visit`".into(), "set `visit` in its header".into()));
    }
    let running = libtorch::version().unwrap_or_else(|| LIBTORCH_VERSION.into());
    let rebuild = |with: &str| format!("rebuild it with {with}");
    let torch = text(plugin.libtorch, "libtorch")?;
    if torch != running {
        let what = format!("was built for libtorch {torch}; this program runs libtorch {running}");
        return Err((what, rebuild(&format!("`LIBTORCH` set to libtorch {running}"))));
    }
    let tch = text(plugin.tch, "tch")?;
    if !tch.is_empty() && tch != TCH_VERSION {
        let what = format!("was built with tch {tch}; this program uses tch {TCH_VERSION}");
        return Err((what, rebuild("the SDK of this version of curricle")));
    }
    let target = text(plugin.target, "target")?;
    if target != TARGET {
        return Err((format!("was built for {target}; this program is for {TARGET}"), rebuild("this target")));
    }
    text(plugin.sdk, "sdk")?;
    Ok(plugin)
}

/// # Safety
/// `offset` must lie within something readable that starts at `bytes`.
unsafe fn read<T: Copy>(bytes: *const u8, offset: usize) -> T {
    // SAFETY: the caller guarantees it; alignment is not needed.
    unsafe { bytes.add(offset).cast::<T>().read_unaligned() }
}

/// Reads a string of the header.
pub(super) fn text(text: Str, name: &str) -> Result<String, HeaderFlaw> {
    let broken = |what: String| (what, format!("set `{name}` in its header to valid text"));
    if text.len > LONGEST || (text.data.is_null() && text.len > 0) {
        return Err(broken(format!("has a header whose `{name}` is not text")));
    }
    // SAFETY: it is not null, and short; the header guarantees that the bytes exist.
    unsafe { text.read(&format!("`{name}` in its header")) }.map_err(|e| broken(format!("has a header in which {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::abi::export::PLUGIN;

    fn flaw(change: impl FnOnce(&mut Plugin)) -> String {
        // Any call makes sure that libtorch, whose version is compared, is loaded.
        assert!(tch::get_num_threads() > 0);
        let mut header = PLUGIN;
        change(&mut header);
        // SAFETY: the header lives until the end of the call, which calls no plugin function.
        match unsafe { check((&raw const header).cast()) } {
            Ok(_) => "none".into(),
            Err((what, fix)) => {
                assert!(!fix.is_empty());
                what
            }
        }
    }

    #[test]
    fn each_field_is_checked_and_errors_name_the_found_and_expected_value() {
        assert_eq!(flaw(|_| ()), "none");
        assert!(flaw(|h| h.magic = *b"CURRICLF").contains("starts with `CURRICLF` instead of `CURRICLE`"));
        assert_eq!(flaw(|h| h.abi_major = 7), "uses version 7.1 of the plugin ABI; this program uses version 2");
        assert_eq!(flaw(|h| h.size = 88), "has a header of 88 bytes; it must have at least 96");
        assert_eq!(
            flaw(|h| h.libtorch = Str::new("2.9.0")),
            "was built for libtorch 2.9.0; this program runs libtorch 2.13.0"
        );
        assert_eq!(flaw(|h| h.tch = Str::new("0.25.0")), "was built with tch 0.25.0; this program uses tch 0.26.0");
        assert_eq!(flaw(|h| h.tch = Str::new("")), "none", "C++ plugins do not use tch");
        assert!(flaw(|h| h.target = Str::new("sparc")).starts_with("was built for sparc; this program is for "));
        assert_eq!(
            flaw(|h| h.libtorch = Str { data: std::ptr::null(), len: 4 }),
            "has a header whose `libtorch` is not text"
        );
        assert!(
            flaw(|h| h.sdk = Str { data: b"\xff\xfe".as_ptr(), len: 2 })
                .contains("`sdk` in its header is not valid UTF-8")
        );
    }

    #[test]
    fn fields_appended_by_a_later_minor_version_are_ignored() {
        assert_eq!(flaw(|h| (h.abi_minor, h.size) = (9, 200)), "none");
    }
}
