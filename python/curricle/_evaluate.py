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
    :raises ValueError: if the evaluator refuses the input; the message says why.
    """
    import numpy

    arrays = {"embeddings": _array(embeddings), "labels": _array(labels)}
    if query is not None:
        arrays["query"] = _array(query).astype(bool)
    with tempfile.TemporaryDirectory(prefix="curricle-") as folder:
        path = Path(folder) / "embeddings.npz"
        numpy.savez(path, **{name: numpy.ascontiguousarray(array) for name, array in arrays.items()})
        command = [str(executable()), "eval", str(path), "--json", "--seed", str(seed), "--device", device]
        command += ["--recall", ",".join(str(k) for k in recall)]
        command += [] if cluster else ["--no-cluster"]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # One line, without the marks of a terminal message.
        message = re.sub(r"\n\s*│\s*", " ", done.stderr.replace(str(path), "embeddings")).strip()
        raise ValueError(message.removeprefix("× "))
    return flat(json.loads(done.stdout))


def flat(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics of a file with the names that tables and curves use: ``recall@1`` instead of ``{"recall": {"1": …}}``."""
    result = {f"recall@{k}": value for k, value in metrics.get("recall", {}).items()}
    others = {"map@r" if name == "map_at_r" else name: value for name, value in metrics.items() if name != "recall"}
    return result | others


def _array(values: Any) -> Any:
    import numpy

    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # NumPy has no bfloat16.
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
        values = values.numpy()
    return numpy.asarray(values)
