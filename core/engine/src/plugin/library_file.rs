//! Checks a library file's bytes before the system's loader opens it.
//!
//! The loader's own messages ("invalid ELF header", "file too short") do not say what to do, and a
//! truncated library can crash the program when its missing pages are read.

/// What is wrong with a file that should be a dynamic library for this machine, and what to do.
pub(super) type LibraryFlaw = (String, &'static str);

const BUILD_IT: &str = "pass the `.so` (on macOS `.dylib`) that `cargo build --release` or `make` writes";
const REBUILD: &str = "build it on this machine, or for its processor";
const COPY_AGAIN: &str = "build or copy it again";

/// Checks the file's bytes.
pub(super) fn check(bytes: &[u8]) -> Result<(), LibraryFlaw> {
    if cfg!(target_os = "macos") { mach_o(bytes) } else { elf(bytes) }
}

fn elf(bytes: &[u8]) -> Result<(), LibraryFlaw> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(foreign(bytes));
    }
    let cut = || ("is truncated".to_string(), COPY_AGAIN);
    let class = *bytes.get(4).ok_or_else(cut)?;
    let order = *bytes.get(5).ok_or_else(cut)?;
    if class != 2 || order != 1 {
        let what = if class == 1 { "is a library for 32-bit machines" } else { "is a library for another byte order" };
        return Err((format!("{what}; this is {}", std::env::consts::ARCH), REBUILD));
    }
    let machine = u16_at(bytes, 18).ok_or_else(cut)?;
    if machine != this_machine() {
        let name = machine_name(machine);
        return Err((format!("is a library for {name}, but this machine is {}", std::env::consts::ARCH), REBUILD));
    }
    match u16_at(bytes, 16).ok_or_else(cut)? {
        3 => {}
        1 => return Err(("is an object file that was not linked".into(), BUILD_IT)),
        2 => return Err(("is a program, not a library".into(), BUILD_IT)),
        _ => return Err(("is not a dynamic library".into(), BUILD_IT)),
    }
    // Every loadable segment must be in the file: reading pages beyond the end of the file crashes the
    // program.
    let (table, size, count) = (u64_at(bytes, 32), u16_at(bytes, 54), u16_at(bytes, 56));
    let (table, size, count) = (table.ok_or_else(cut)?, size.ok_or_else(cut)?, count.ok_or_else(cut)?);
    for index in 0..u64::from(count) {
        let at = index.checked_mul(u64::from(size)).and_then(|offset| table.checked_add(offset));
        let at = at.and_then(|at| usize::try_from(at).ok()).ok_or_else(cut)?;
        let (kind, offset, length) = (u32_at(bytes, at), u64_at(bytes, at + 8), u64_at(bytes, at + 32));
        let (kind, offset, length) = (kind.ok_or_else(cut)?, offset.ok_or_else(cut)?, length.ok_or_else(cut)?);
        let end = offset.checked_add(length).ok_or_else(cut)?;
        if kind == 1 && end > bytes.len() as u64 {
            return Err(cut());
        }
    }
    Ok(())
}

fn mach_o(bytes: &[u8]) -> Result<(), LibraryFlaw> {
    match (u32_at(bytes, 0), u32_at(bytes, 4)) {
        (Some(0xfeed_facf), Some(0x0100_000c)) if cfg!(target_arch = "aarch64") => Ok(()),
        (Some(0xfeed_facf), Some(0x0100_0007)) if cfg!(target_arch = "x86_64") => Ok(()),
        (Some(0xfeed_facf), Some(_)) => {
            Err((format!("is a library for a processor other than {}", std::env::consts::ARCH), REBUILD))
        }
        // A universal file; the loader picks the right architecture.
        (Some(0xbeba_feca), _) => Ok(()),
        _ => Err(foreign(bytes)),
    }
}

/// Describes a file of another kind.
fn foreign(bytes: &[u8]) -> LibraryFlaw {
    let what = match bytes {
        [] => "is empty",
        _ if bytes.starts_with(b"!<arch>") => {
            return (
                "is a static library (or a Rust `rlib`)".into(),
                "a plugin's Cargo.toml needs `[lib] crate-type = [\"cdylib\"]`",
            );
        }
        _ if bytes.starts_with(b"\x7fELF") => "is a library for Linux",
        _ if bytes.starts_with(b"MZ") => "is a library for Windows",
        _ if u32_at(bytes, 0) == Some(0xfeed_facf) => "is a library for macOS",
        _ => "is not a dynamic library",
    };
    (what.into(), BUILD_IT)
}

fn this_machine() -> u16 {
    if cfg!(target_arch = "aarch64") { 183 } else { 62 }
}

fn machine_name(machine: u16) -> String {
    match machine {
        3 => "x86".into(),
        40 => "arm".into(),
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        243 => "riscv64".into(),
        other => format!("the processor with ELF number {other}"),
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The header of a dynamic library without segments.
    fn header(machine: u16, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16..18].copy_from_slice(&kind.to_le_bytes());
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes
    }

    fn what(bytes: &[u8]) -> String {
        check(bytes).unwrap_err().0
    }

    #[test]
    fn this_test_program_passes_and_is_truncated_when_cut() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(check(&program), Ok(()));
        for length in [5, 20, 63, 100, 5000] {
            assert_eq!(what(&program[..length]), "is truncated", "{length}");
        }
    }

    #[test]
    fn files_of_other_kinds_are_named() {
        assert_eq!(what(b""), "is empty");
        assert_eq!(what(b"hello"), "is not a dynamic library");
        assert!(what(b"!<arch>\n").starts_with("is a static library"));
        assert_eq!(what(b"MZ\x90"), "is a library for Windows");
        assert!(what(&header(243, 3)).starts_with("is a library for riscv64, but this machine is"));
        assert_eq!(what(&header(this_machine(), 1)), "is an object file that was not linked");
        assert_eq!(check(&header(this_machine(), 3)), Ok(()));
    }
}
