"""What a loss in Python costs beyond the loss itself: `python benches/python_loss.py target/release/curricle`.

Times each step of `Circle` and `ProxyNCA` from examples/python-losses at 64 x 512 with one thread, forward and
backward: in a loop in this process, and as a loss of curricle with `probe loss --time`. Prints medians.
"""

import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/python-losses/losses.py"
STEPS = 1000


def write(path, tensors):
    """A safetensors file."""
    kinds, header, parts = {torch.float32: "F32", torch.int64: "I64"}, {}, []
    for name, tensor in tensors.items():
        start = sum(map(len, parts))
        parts.append(bytes(tensor.contiguous().untyped_storage()))
        offsets = [start, start + len(parts[-1])]
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def alone(loss, embeddings, inputs):
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        leaf = embeddings.detach().requires_grad_()
        torch.autograd.grad(loss(leaf, **inputs), [leaf, *loss.parameters()])
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[STEPS // 2]


def in_curricle(program, name, batch):
    args = ["--plugin", EXAMPLE, "--python", sys.executable, "--in", batch, "--out", batch.with_name("out")]
    command = [program, "probe", "loss", name, *args, "--time", str(STEPS), "--threads", "1"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["median_ms"]


torch.manual_seed(0)
torch.set_num_threads(1)
sys.path.insert(0, str(EXAMPLE.parent))
import losses  # noqa: E402

embeddings = torch.nn.functional.normalize(torch.randn(64, 512))
inputs = {"labels": torch.arange(64) // 4, "weights": torch.ones(64)}
with tempfile.TemporaryDirectory() as folder:
    batch = Path(folder) / "batch.safetensors"
    write(batch, {"embeddings": embeddings, "labels": inputs["labels"]})
    for loss, more in [(losses.Circle(), {"ids": torch.arange(64)}), (losses.ProxyNCA(16, 512), {})]:
        name = type(loss).__name__
        here, there = alone(loss, embeddings, {**inputs, **more}), in_curricle(sys.argv[1], name, batch)
        print(f"{name}: {here:.3f} ms alone, {there:.3f} ms in curricle, {there - here:.3f} ms more")
