//! A headless Chromium, driven by real clicks and keys.
//!
//! Chromium speaks its DevTools protocol over a pair of pipes: JSON messages, each followed by a zero byte. So the tests
//! need no driver besides the browser.

use super::skip;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No answer of the browser takes longer than this, even on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser with one tab. It ends when this is dropped.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    sent: u64,
    session: Option<String>,
    profile: TempDir,
}

impl Browser {
    /// Starts the browser, or returns `None` after recording that the test of `what` is skipped.
    pub(crate) fn start_or_skip(what: &str) -> Option<Self> {
        let Some(program) = NAMES.into_iter().find_map(installed) else {
            skip(what, "Chromium is not installed; `scripts/setup --browser` installs it");
            return None;
        };
        Some(Self::start(&program))
    }

    fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder can be made");
        // The protocol's pipes are file descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
            .args(["--window-size=1200,900", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let commands = process.stdin.take().expect("standard input is a pipe");
        let output = process.stdout.take().expect("standard output is a pipe");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self { process, commands, messages, sent: 0, session: None, profile };
        let tab = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": tab["targetId"], "flatten": true }));
        let folder = browser.downloads();
        browser.call("Browser.setDownloadBehavior", &json!({ "behavior": "allow", "downloadPath": folder }));
        browser.session = attached["sessionId"].as_str().map(str::to_string);
        browser.call("Page.enable", &json!({}));
        browser
    }

    /// The folder of downloaded files.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.profile.path().join("downloads")
    }

    /// Opens a file, and waits until it is loaded and its scripts have run.
    pub(crate) fn open(&mut self, file: &Path) {
        let address = format!("file://{}", file.display());
        // The old page would answer for the new one otherwise.
        self.value("window.leaving = true");
        self.call("Page.navigate", &json!({ "url": address }));
        self.wait_for("!window.leaving && document.readyState === 'complete'");
    }

    /// Turns JavaScript on or off for pages opened from now on.
    pub(crate) fn set_scripts(&mut self, on: bool) {
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !on }));
    }

    /// The value of a JavaScript expression on the page.
    ///
    /// # Panics
    /// If it throws.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "`{expression}`: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// The text of an element.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({}).textContent", json!(selector)));
        text.as_str().unwrap_or_else(|| panic!("no text in `{selector}`")).to_string()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let start = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(start.elapsed() < TIME_LIMIT, "`{expression}` does not become true");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Scrolls to an element and clicks on its middle.
    pub(crate) fn click(&mut self, selector: &str) {
        let middle = self.value(&format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'center' }}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": middle[0], "y": middle[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses a key: a character, or a name such as `Tab` or `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            _ => (key.to_uppercase().as_bytes()[0], key),
        };
        for kind in [if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "keyUp"] {
            let text = if kind == "keyUp" { "" } else { text };
            let event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Chooses a file in a file input.
    pub(crate) fn choose_file(&mut self, selector: &str, file: &Path) {
        let expression = format!("document.querySelector({})", json!(selector));
        let found = self.call("Runtime.evaluate", &json!({ "expression": expression }));
        self.call("DOM.setFileInputFiles", &json!({ "files": [file], "objectId": found["result"]["objectId"] }));
    }

    /// A downloaded file, once it is complete.
    pub(crate) fn download(&self, name: &str) -> String {
        let (path, start) = (self.downloads().join(name), Instant::now());
        // It has its name only when it is complete.
        while !path.exists() {
            assert!(start.elapsed() < TIME_LIMIT, "`{name}` is not downloaded");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::read_to_string(path).expect("a downloaded file can be read")
    }

    /// Sends a command and waits for its answer. Questions of the page are answered with yes.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.send(method, parameters);
        loop {
            let message =
                self.messages.recv_timeout(TIME_LIMIT).unwrap_or_else(|e| panic!("no answer to `{method}`: {e}"));
            if message["method"] == "Page.javascriptDialogOpening" {
                self.send("Page.handleJavaScriptDialog", &json!({ "accept": true }));
            } else if message["id"] == id {
                assert!(message["error"].is_null(), "`{method}`: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    fn send(&mut self, method: &str, parameters: &Value) -> u64 {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).expect("the browser runs");
        self.sent
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to do.
        if self.process.kill().is_ok() {
            let _ = self.process.wait();
        }
    }
}

fn installed(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|program| program.is_file())
}
