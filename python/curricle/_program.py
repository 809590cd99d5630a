"""Where the parts of the package are, and the command ``curricle``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def executable() -> Path:
    """The program."""
    return _HERE / "bin" / "curricle"


def include() -> Path:
    """The folder of the C and C++ headers for plugins."""
    return _HERE / "sdk" / "core" / "sdk" / "include"


def sdk() -> Path:
    """The folder of the Rust SDK for plugins, a cargo package."""
    return _HERE / "sdk" / "core" / "sdk"


def environment() -> dict[str, str]:
    """The environment to start the program in.

    The program finds libtorch in the ``torch`` package next to this one. If torch is installed elsewhere, for example
    in the system while curricle is in a virtual environment, its folder is passed on. Losses in Python run in this
    interpreter unless ``CURRICLE_PYTHON`` names another: it is the one whose torch the program uses.

    :raises ImportError: if torch is not installed.
    """
    environment = dict(os.environ)
    if sys.executable:
        environment.setdefault("CURRICLE_PYTHON", sys.executable)
    if (_HERE.parent / "torch" / "lib").is_dir():
        return environment
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        raise ImportError("curricle needs PyTorch; install it with `pip install torch==2.13.0`")
    folders = [str(Path(torch.origin).parent / "lib"), environment.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return environment


def main() -> None:
    """Replaces this process by the program."""
    program = str(executable())
    try:
        variables = environment()
    except ImportError as error:
        sys.exit(f"error: {error}")
    os.execve(program, [program, *sys.argv[1:]], variables)
