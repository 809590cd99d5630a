"""``curricle.evaluate``: the exact evaluator, on arrays or tensors."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Sequence

from ._program import environment, executable


def evaluate(
    embeddings: Any,
    labels: Any,
    query: Any = None,
    *,
    recall: Sequence[int] = (1, 2, 4, 8),
    cluster: bool = True,
    seed: int = 0,
    device: str = "auto",
) -> dict[str, Any]:
    """Computes Recall@K, R-precision, MAP@R, NMI and AMI, as ``curricle eval`` does.

    :param embeddings: ``[N, D]`` floats: a NumPy array, a tensor, or anything ``numpy.asarray`` takes. They are
        compared by cosine similarity.
    :param labels: ``[N]`` integers.
    :param query: ``[N]`` booleans: these samples are the queries and the others the gallery. Without it, every sample
        is a query against all others.
    :param recall: the values of K for Recall@K.
    :param cluster: whether to compute NMI and AMI, which need k-means.
    :param seed: the seed of k-means.
    :param device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    :returns: the metrics as fractions from 0 to 1, by name: ``recall@1``, ``map@r`` and so on; also ``queries``,
        ``samples``, ``classes`` and ``dimensions``.
    :raises ValueError: if the input cannot be evaluated; the message says why.
    """
    import numpy

    arrays = {
        "embeddings": _array("embeddings", embeddings, "f", "floats"),
        "labels": _array("labels", labels, "iu", "integers, e.g. `numpy.unique(labels, return_inverse=True)[1]`"),
    }
    if query is not None:
        arrays["query"] = _array("query", query, "biu", "booleans").astype(bool)
    with tempfile.TemporaryDirectory(prefix="curricle-") as folder:
        path = Path(folder) / "embeddings.npz"
        numpy.savez(path, **arrays)
        command = [str(executable()), "eval", str(path), "--json", "--seed", str(seed), "--device", device]
        command += ["--recall", ",".join(str(k) for k in recall)]
        command += [] if cluster else ["--no-cluster"]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # One line, without the marks of a terminal message and the advice for a command line.
        message = re.sub(r"\n\s*│\s*", " ", done.stderr.replace(str(path), "embeddings")).strip()
        raise ValueError(message.split("\n\n")[0].removeprefix("× ").removeprefix("error: "))
    return flat(json.loads(done.stdout))


def flat(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics of a file with the names that tables and curves use: ``recall@1`` instead of ``{"recall": {"1": …}}``."""
    result = {f"recall@{k}": value for k, value in metrics.get("recall", {}).items()}
    others = {"map@r" if name == "map_at_r" else name: value for name, value in metrics.items() if name != "recall"}
    return result | others


def _array(name: str, values: Any, kinds: str, needed: str) -> Any:
    """An array that the program reads: row by row, in the byte order of this machine."""
    import numpy

    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # NumPy has no bfloat16.
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
        values = values.numpy()
    array = numpy.asarray(values)
    if array.dtype.kind not in kinds:
        raise ValueError(f"`{name}` has the type `{array.dtype}`; it must have {needed}")
    return array.astype(array.dtype.newbyteorder("="), order="C")
