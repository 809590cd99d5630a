//! The last words of a process that a component ends: which component was running.
//!
//! A component, or the library it is in, can call `exit` or `abort`, or crash. Nothing in Rust is told of that, so exit
//! functions and signal handlers write the component's name to standard error and to the run's `error.txt`. They may use
//! no lock and no heap: the name is in static memory, and the path was made before.

use curricle_sdk::ComponentKind;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Longer names are cut.
const LONGEST: usize = 200;

/// Signals of crashes.
const CRASHES: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "crashed (segmentation fault)"),
    (libc::SIGABRT, "aborted"),
    (libc::SIGFPE, "crashed (arithmetic error)"),
    (libc::SIGBUS, "crashed (bus error)"),
    (libc::SIGILL, "crashed (illegal instruction)"),
];

/// What is running, e.g. ``loss `ms` ``; the length is 0 if nothing is.
static NAME: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Where the last words are written besides standard error; null if nowhere.
static FILE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// The handlers that were there before, in the order of [`CRASHES`]; Rust's own reports stack overflows.
static OLD: OnceLock<Vec<libc::sigaction>> = OnceLock::new();

/// Until this is dropped, a component counts as running.
#[derive(Debug)]
pub(crate) struct Running {
    noted_here: bool,
}

/// Notes that a component is running, on whichever thread.
pub(crate) fn running(kind: ComponentKind, name: &str) -> Running {
    note([kind.as_str(), " `", name, "`"])
}

/// Notes that a library is being loaded, which runs its initialisers.
pub(crate) fn loading(library: &Path) -> Running {
    note(["plugin", " `", &library.file_name().unwrap_or_default().to_string_lossy(), "`"])
}

fn note(parts: [&str; 4]) -> Running {
    OLD.get_or_init(install);
    LENGTH.store(0, Relaxed);
    let mut length = 0;
    for (place, byte) in NAME.iter().zip(parts.into_iter().flat_map(str::bytes)) {
        place.store(byte, Relaxed);
        length += 1;
    }
    LENGTH.store(length, Relaxed);
    Running { noted_here: true }
}

impl Running {
    /// Within a longer time for which the component was noted already.
    pub(crate) fn as_noted() -> Self {
        Self { noted_here: false }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.noted_here {
            LENGTH.store(0, Relaxed);
        }
    }
}

/// From now on, writes last words to this file too.
pub(crate) fn write_to(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).map_or(ptr::null_mut(), CString::into_raw);
    // The old path is not freed, since a handler may be reading it.
    FILE.store(path, Relaxed);
}

unsafe extern "C" {
    /// C11's `atexit` for `quick_exit`.
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

fn install() -> Vec<libc::sigaction> {
    // SAFETY: the function has the demanded signature and lives as long as the process.
    unsafe {
        libc::atexit(at_exit);
        at_quick_exit(at_exit);
    }
    let replace = |signal| {
        // SAFETY: the structures are plain data, and the handler calls only functions that are allowed in one. It
        // uses the alternative stack that Rust sets up for its threads.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, &mut old);
            old
        }
    };
    CRASHES.map(|(signal, _)| replace(signal)).into()
}

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(index) = CRASHES.iter().position(|(known, _)| *known == signal) else { return };
    say(CRASHES[index].1);
    // SAFETY: restores the handler from before. A fault repeats when this function returns; a signal from elsewhere
    // (`abort`, `kill`) has to be raised again.
    unsafe {
        match OLD.get() {
            Some(old) => libc::sigaction(signal, &old[index], ptr::null_mut()),
            None => libc::signal(signal, libc::SIG_DFL) as c_int,
        };
        if info.is_null() || (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

extern "C" fn at_exit() {
    if say("ended the process") {
        // Whatever code the component chose, the command did not succeed.
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(curricle_record::Exit::Failed.code())) };
    }
}

/// Writes what the running component did, if there is one.
fn say(what: &str) -> bool {
    let mut noted = [0; LONGEST];
    for (to, from) in noted.iter_mut().zip(&NAME) {
        *to = from.load(Relaxed);
    }
    // Taken, so that what follows, such as the report of a stack overflow, does not say it again.
    let name = match LENGTH.swap(0, Relaxed) {
        0 => return false,
        length => &noted[..length],
    };
    let file = FILE.load(Relaxed);
    let file = if file.is_null() {
        -1
    } else {
        // SAFETY: the path is a C string that is never freed.
        unsafe { libc::open(file, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, 0o666) }
    };
    for (target, before) in [(libc::STDERR_FILENO, "\nerror: "), (file, "")] {
        for part in [before.as_bytes(), name, b" ", what.as_bytes(), b" while it was running\n"] {
            // SAFETY: pointer and length are those of one slice. An invalid descriptor is an error without effect.
            unsafe { libc::write(target, part.as_ptr().cast(), part.len()) };
        }
    }
    true
}
