//! What the process that serves a Python file prints.

use crate::progress;
use crate::track::logging;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a traceback, and of the output of a process that ended, that an error repeats.
pub(super) const SHOWN_LINES: usize = 16;

/// The line of the file in the innermost call that Python's fault handler shows.
pub(super) fn line_in<'l>(path: &Path, lines: impl IntoIterator<Item = &'l String>) -> Option<u64> {
    let start = format!("  File \"{}\", line ", path.display());
    let rest = lines.into_iter().find_map(|line| line.strip_prefix(&start))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a line of Python's fault handler says nothing about the user's code: calls in `worker.py`, in the machinery
/// of imports and of modules, and a list of all compiled modules.
fn is_noise(line: &str) -> bool {
    let calls = ["  File \"<string>\"", "  File \"<frozen "];
    calls.iter().any(|call| line.starts_with(call))
        || line.ends_with("_call_impl")
        || line.starts_with("Extension modules: ")
}

/// What the process prints: shown, logged, and the last lines kept for errors.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: Mutex<(VecDeque<String>, bool)>,
}

impl Output {
    /// Reads what the process of this file prints until it ends.
    pub(super) fn follow(self: &Arc<Self>, stream: impl Read + Send + 'static, path: &Path) {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let output = Arc::clone(self);
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_string();
                line.clear();
                progress::print(&format!("{file}: {text}\n"));
                tracing::info!(target: logging::FILE_ONLY, "{file}: {text}");
                if is_noise(&text) {
                    continue;
                }
                let kept = &mut output.lock().0;
                kept.push_back(text);
                if kept.len() > SHOWN_LINES {
                    kept.pop_front();
                }
            }
            output.lock().1 = true;
        });
    }

    fn lock(&self) -> MutexGuard<'_, (VecDeque<String>, bool)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the stream has ended or the lines are as wanted, but not longer than this.
    pub(super) fn wait_for(&self, limit: Duration, wanted: impl Fn(&VecDeque<String>) -> bool) {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            let kept = self.lock();
            if kept.1 || wanted(&kept.0) {
                return;
            }
            drop(kept);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last lines that tell something about the user's code.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.lock().0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_line_of_the_file_is_found_in_a_traceback() {
        let lines = ["Current thread 0x1 (most recent call first):", "  File \"/torch/x.py\", line 3 in f"];
        let mut lines = lines.map(String::from).to_vec();
        assert_eq!(line_in(Path::new("/a/l.py"), &lines), None);
        lines.push("  File \"/a/l.py\", line 12 in forward".into());
        lines.push("  File \"/a/l.py\", line 40 in outer".into());
        assert_eq!(line_in(Path::new("/a/l.py"), &lines), Some(12));
    }

    #[test]
    fn calls_of_python_and_torch_themselves_are_left_out_of_errors() {
        let noise = [
            "  File \"<string>\", line 398 in forward",
            "  File \"<frozen importlib._bootstrap>\", line 690 in _load_unlocked",
            "  File \"/torch/nn/modules/module.py\", line 1789 in _call_impl",
            "Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)",
        ];
        assert!(noise.iter().all(|line| is_noise(line)));
        assert!(!is_noise("  File \"/a/l.py\", line 12 in forward") && !is_noise("Fatal Python error: Aborted"));
    }
}
