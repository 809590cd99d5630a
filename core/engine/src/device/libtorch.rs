//! The version and location of the loaded libtorch.

use std::path::PathBuf;

/// The required version; tch works with no other.
pub(crate) const REQUIRED: &str = curricle_sdk::abi::LIBTORCH_VERSION;

/// The version of tch, the libtorch bindings.
pub const TCH: &str = "0.26.0";

/// The version of the loaded libtorch; `None` if it does not export one.
pub fn version() -> Option<String> {
    let program = libloading::os::unix::Library::this();
    // SAFETY: libtorch declares this function with no arguments and a `uint64_t` result, as part of
    // its stable ABI.
    let encoded = unsafe {
        let function = program.get::<unsafe extern "C" fn() -> u64>(b"aoti_torch_abi_version\0").ok()?;
        function()
    };
    Some(decode(encoded))
}

/// The top three bytes are major, minor and patch; the lower ones mark unreleased builds.
fn decode(encoded: u64) -> String {
    let [major, minor, patch, ..] = encoded.to_be_bytes();
    format!("{major}.{minor}.{patch}")
}

/// The folder `libtorch_cpu.so` was loaded from.
pub fn folder() -> Option<PathBuf> {
    let library = loaded_files().into_iter().find(|file| file.ends_with("libtorch_cpu.so"))?;
    library.parent().map(PathBuf::from)
}

/// The files mapped into this process, such as its libraries, each once.
pub(crate) fn loaded_files() -> Vec<PathBuf> {
    files_of(&fs_err::read_to_string("/proc/self/maps").unwrap_or_default())
}

/// A line of `maps` has five columns and, for files, the path, which may contain spaces.
fn files_of(maps: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = maps.lines().filter_map(|line| Some(line[line.find('/')?..].into())).collect();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_libtorch_has_the_required_version() {
        // Any call into libtorch makes the linker keep it in the test binary.
        assert!(tch::get_num_threads() > 0);
        assert_eq!(version().as_deref(), Some(REQUIRED));
        assert!(folder().unwrap().join("libtorch_cpu.so").is_file());
    }

    #[test]
    fn mapped_files_are_listed_once() {
        let maps = "7f00-7f01 r--p 00000000 08:01 5    /opt/a b/libx.so\n7f01-7f02 r-xp 00001000 08:01 5    \
                    /opt/a b/libx.so\n7f05-7f06 rw-p 00000000 00:00 0    [heap]\n7f07-7f08 rw-p 00000000 00:00 0\n";
        assert_eq!(files_of(maps), [PathBuf::from("/opt/a b/libx.so")]);
    }

    #[test]
    fn the_tch_version_matches_the_workspace() {
        let workspace = include_str!("../../../../Cargo.toml");
        assert!(workspace.contains(&format!("tch = \"={TCH}\"")));
    }

    #[test]
    fn versions_are_decoded_from_the_top_byte() {
        assert_eq!(decode(0x020d_0100_0000_0000), "2.13.1");
    }
}
