//! Which libtorch runs in this process, and where it was loaded from.

use std::path::PathBuf;

/// The version this program was written for; tch speaks to no other.
pub const WANTED: &str = "2.13.0";

/// The version of tch, the binding to libtorch.
pub const TCH: &str = "0.26.0";

/// The version of the libtorch that was loaded, or nothing if it does not tell.
pub fn version() -> Option<String> {
    let program = libloading::os::unix::Library::this();
    // SAFETY: libtorch declares this function as taking nothing and returning a `uint64_t`, as
    // part of an interface that it promises to keep stable.
    let encoded = unsafe {
        let function = program.get::<unsafe extern "C" fn() -> u64>(b"aoti_torch_abi_version\0").ok()?;
        function()
    };
    Some(decode(encoded))
}

/// One byte each for major, minor and patch, from the top; what follows marks unreleased builds.
fn decode(encoded: u64) -> String {
    let [major, minor, patch, ..] = encoded.to_be_bytes();
    format!("{major}.{minor}.{patch}")
}

/// The folder `libtorch_cpu.so` was loaded from.
pub fn folder() -> Option<PathBuf> {
    // A line of `maps` is five columns and the path, which may have spaces in it.
    let maps = fs_err::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("/libtorch_cpu.so"))?;
    let path = PathBuf::from(&line[line.find('/')?..]);
    path.parent().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_libtorch_is_the_wanted_one() {
        // Any call makes sure that the linker keeps libtorch in this test program.
        assert!(tch::get_num_threads() > 0);
        assert_eq!(version().as_deref(), Some(WANTED));
        assert!(folder().unwrap().join("libtorch_cpu.so").is_file());
    }

    #[test]
    fn the_version_of_tch_is_the_one_in_the_workspace() {
        let workspace = include_str!("../../../../Cargo.toml");
        assert!(workspace.contains(&format!("tch = \"={TCH}\"")));
    }

    #[test]
    fn versions_are_decoded_from_the_top_byte() {
        assert_eq!(decode(0x020d_0100_0000_0000), "2.13.1");
    }
}
