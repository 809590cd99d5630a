//! Python files that do everything wrong: each mistake is an error that names file, line and cause.

use crate::support::python::python_or_skip;
use crate::support::{Printed, Sandbox, unwrapped};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

fn python() -> Option<String> {
    python_or_skip("mistakes in Python losses")
}

/// One class for each mistake of `forward`. The line with the mistake ends in `# here`.
const MISTAKES: &str = r#"
import sys
import torch
from torch import nn


class Loss(nn.Module):
    def forward(self, embeddings, labels):
        print("this is not a reply")
        return self.loss(embeddings, labels)


class Raises(Loss):
    def loss(self, x, y):
        raise ValueError("too odd")  # here


class Multiplies(Loss):
    def loss(self, x, y):
        return (x @ x).sum()  # here


class InPlace(Loss):
    def loss(self, x, y):
        s = (x @ x.T).exp()  # here
        mean = s.mean()
        s += 1
        return mean + s.sum()


class Careless(Loss):
    """Changes a mode of the process, which later losses must not notice."""

    def loss(self, x, y):
        value = x.sum()
        torch.set_grad_enabled(False)
        return value


class ParameterRoot(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, embeddings, labels):
        return embeddings.sum() + (self.scale * 0).sqrt()  # here


class Exits(Loss):
    def loss(self, x, y):
        sys.exit(3)  # here


class Logarithm(Loss):
    def loss(self, x, y):
        return (x - 2).log().sum()  # here


class Root(Loss):
    def loss(self, x, y):
        return (x * 0).sqrt().sum()  # here


class Vector(nn.Module):
    def forward(self, embeddings, labels):  # here
        return embeddings.sum(1)


class Nothing(nn.Module):
    def forward(self, embeddings, labels):  # here
        pass


class Infinite(nn.Module):
    def forward(self, embeddings, labels):  # here
        return (embeddings.sum() * 0 + 1e3).exp()


class Detached(nn.Module):
    def forward(self, embeddings, labels):  # here
        return embeddings.detach().sum()


class Grows(nn.Module):
    def forward(self, embeddings, labels):  # here
        self.register_buffer("late", torch.zeros(3))
        return embeddings.sum()
"#;

#[test]
fn mistakes_in_forward_name_file_line_and_cause() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("mistakes.py", MISTAKES);
    let args = ["plugin", "check", "mistakes.py", "--json", "--python", &python];
    let checked = sandbox.curricle(args).assert().code(1);
    assert!(checked.stderr_text().contains("mistakes.py: this is not a reply"), "{}", checked.stderr_text());
    let reports = checked.json();
    let reason = |report: &serde_json::Value| {
        let checks = report["checks"].as_array().unwrap().iter();
        let value = { checks }.find(|check| check["check"] == "value").expect("the check of the value");
        (report["name"].as_str().unwrap().to_string(), value["reason"].as_str().unwrap_or("passed").to_string())
    };
    let reasons: BTreeMap<_, _> = reports.as_array().unwrap().iter().map(reason).collect();
    let line_of = |class: &str| {
        let start = MISTAKES.lines().position(|line| line.starts_with(&format!("class {class}("))).unwrap();
        start + 1 + MISTAKES.lines().skip(start).position(|line| line.ends_with("# here")).unwrap()
    };
    let expected = [
        ("Raises", "ValueError: too odd"),
        ("Multiplies", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("Exits", "called `exit(3)`"),
        ("InPlace", "has been modified by an inplace operation"),
        ("ParameterRoot", "the gradient is not finite: Function 'MulBackward0' returned nan values"),
        ("Logarithm", "`log` gave nan"),
        ("Root", "the gradient is not finite: Function 'MulBackward0' returned nan values"),
        ("Vector", "returned a tensor of shape [12]; `forward` must return one number"),
        ("Nothing", "returned None; `forward` must return one number"),
        ("Infinite", "the loss is inf, though the embeddings are finite"),
        ("Detached", "returned a value that is detached from the embeddings"),
        ("Grows", "created or removed `late`; create all tensors in `__init__`"),
    ];
    for (class, cause) in expected {
        let (reason, place) = (&reasons[class], format!("mistakes.py:{}: ", line_of(class)));
        assert!(reason.starts_with(&place) && reason.contains(cause), "{class} is not at {place}: {reason}");
    }
    assert_eq!(reasons["Careless"], "passed");
    assert!(reasons["Raises"].contains("in loss\n      raise ValueError(\"too odd\")"), "{}", reasons["Raises"]);
}

/// The message of `plugin list` for a file.
fn refusal(sandbox: &Sandbox, python: &str, text: &str) -> String {
    sandbox.write("l.py", text);
    let listed = sandbox.curricle(["plugin", "list", "l.py", "--python", python, "--python-timeout", "300"]);
    unwrapped(&{ listed }.assert().code(2).stderr_text())
}

#[test]
fn files_that_cannot_be_loaded_name_line_and_cause() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new();
    let syntax = refusal(&sandbox, &python, "import torch\nx = = 3\n");
    assert!(syntax.contains("plugin `l.py` cannot be used: l.py:2: SyntaxError: invalid syntax"), "{syntax}");
    let missing = refusal(&sandbox, &python, "import torch\nimport no_such_package\n");
    assert!(missing.contains("l.py:2: ModuleNotFoundError: No module named 'no_such_package'"), "{missing}");
    let none = "import torch\n\nclass Other(torch.nn.Module):\n    def forward(self, x, y): return x.sum()\n";
    let none = refusal(&sandbox, &python, none);
    assert!(none.contains("has no losses; `Other.forward` takes `x`, `y`"), "{none}");
    let object = "import torch\n\nclass A(torch.nn.Module):\n    def __init__(self, net: torch.nn.Module): pass\n    \
                  def forward(self, embeddings, labels): return embeddings.sum()\n";
    let object = refusal(&sandbox, &python, object);
    assert!(object.contains("l.py:4: a recipe cannot give argument `net` of `A`; give it a default"), "{object}");
}

#[test]
fn an_interpreter_that_is_missing_or_has_no_torch_is_named() {
    let sandbox = Sandbox::new();
    let missing = refusal(&sandbox, "/no/such/python", "");
    assert!(missing.contains("needs Python, but `/no/such/python` cannot be started"), "{missing}");
    assert!(missing.contains("name its interpreter with `--python`"), "{missing}");
    // Without the packages of its environment.
    let bare = sandbox.write("bare", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
    std::fs::set_permissions(&bare, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bare = refusal(&sandbox, bare.to_str().unwrap(), "import torch\n");
    assert!(bare.contains("cannot import it: ModuleNotFoundError: No module named 'torch'"), "{bare}");
}

#[test]
fn processes_that_hang_or_die_are_errors_and_not_left_behind() {
    let Some(python) = python() else { return };
    let sandbox = Sandbox::new();
    let file = "import os, signal, time, torch\n\n\n\
                class Hangs(torch.nn.Module):\n    def forward(self, embeddings, labels):\n        \
                print(os.getpid())\n        while True: pass\n\n\n\
                class Dies(torch.nn.Module):\n    def forward(self, embeddings, labels):\n        \
                os.kill(os.getpid(), signal.SIGSEGV)\n\n\n\
                class Leaves(torch.nn.Module):\n    def forward(self, embeddings, labels):\n        os._exit(7)\n";
    sandbox.write("l.py", file);
    let reason = |class: &str, timeout: &str| {
        let args = ["plugin", "check", "l.py", "--only", class, "--json", "--python", &python];
        let checked = sandbox.curricle(args.into_iter().chain(["--python-timeout", timeout])).assert().code(1);
        (checked.json()[0]["checks"][0]["reason"].as_str().unwrap().to_string(), checked.stderr_text())
    };
    let (hangs, printed) = reason("Hangs", "5");
    assert!(hangs.starts_with("l.py:7: `forward` took longer than 5 s, and its process was ended"), "{hangs}");
    let id = printed.lines().find_map(|line| line.strip_prefix("l.py: ")).expect("its process id");
    assert!(!std::path::Path::new("/proc").join(id).exists(), "the process is left behind");
    let (dies, _) = reason("Dies", "300");
    assert!(dies.starts_with("l.py:12: its process ended during `forward` (signal: 11 (SIGSEGV)"), "{dies}");
    let noise = ["Extension modules: ", "_call_impl", "File \"<string>\""];
    assert!(!noise.into_iter().any(|line| dies.contains(line)), "{dies}");
    let (leaves, _) = reason("Leaves", "300");
    assert!(leaves.starts_with("l.py: its process ended during `forward` (exit status: 7)"), "{leaves}");
}
