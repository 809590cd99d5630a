"""``curricle.runs`` and ``curricle.metrics``: what run folders contain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Union, overload

from ._evaluate import flat

_Path = Union[str, "PathLike[str]"]


@overload
def runs(folder: _Path = "runs", *, frame: Literal[False]) -> list[dict[str, Any]]: ...
@overload
def runs(folder: _Path = "runs", *, frame: bool | None = None) -> Any: ...
def runs(folder: _Path = "runs", *, frame: bool | None = None) -> Any:
    """The results of all finished runs below a folder.

    :param folder: the folder given to ``curricle run --out``, or any folder in it.
    :param frame: whether to return a pandas DataFrame instead of a list of dictionaries; by default, if pandas is
        installed.
    :returns: one record per run, sorted by path: ``run`` (its folder), ``name``, ``method``, ``case``, ``seed``,
        ``loss``, ``weights``, ``epochs``, ``steps``, ``seconds``, ``final_loss``, ``recipe_hash``, and the metrics
        after training (``recall@1``, …) and before (``untrained/recall@1``, …).
    :raises FileNotFoundError: if there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder `{root}`")
    records = [_record(path) for path in sorted(root.rglob("result.json"))]
    return _framed(records, frame)


@overload
def metrics(run: _Path | Mapping[str, Any], *, frame: Literal[False]) -> list[dict[str, Any]]: ...
@overload
def metrics(run: _Path | Mapping[str, Any], *, frame: bool | None = None) -> Any: ...
def metrics(run: _Path | Mapping[str, Any], *, frame: bool | None = None) -> Any:
    """The curves of a run.

    :param run: the folder of a run, which need not be finished, or a record of :func:`runs`.
    :param frame: as for :func:`runs`.
    :returns: one record per scalar in the order they were measured: ``step``, ``epoch``, ``tag`` and ``value``.
    """
    folder = _folder(run)
    records = []
    with open(folder / "metrics.jsonl", encoding="utf-8") as lines:
        header = json.loads(next(lines, "{}"))
        if header.get("format") != "curricle-metrics" or header.get("version") != 1:
            raise ValueError(f"`{folder}/metrics.jsonl` is not a file that this version of curricle reads")
        for line in lines:
            # A run in progress may have written only a part of its last line.
            if not line.endswith("\n"):
                break
            record = json.loads(line)
            if "value" in record:
                # NaN and infinity are strings, because JSON has neither.
                record["value"] = float(record["value"])
                records.append(record)
    return _framed(records, frame)


def _folder(run: Any) -> Path:
    if isinstance(run, (str, PathLike)):
        return Path(run)
    try:
        # Also for a row of a DataFrame, which is not a Mapping.
        return Path(run["run"])
    except (KeyError, TypeError):
        raise TypeError("`run` must be the folder of a run or a record of `curricle.runs`") from None


_FIELDS = (
    "name", "method", "case", "seed", "loss", "weights", "epochs", "steps", "seconds", "final_loss", "recipe_hash",
)


def _record(path: Path) -> dict[str, Any]:
    result = json.loads(path.read_text(encoding="utf-8"))
    record: dict[str, Any] = {"run": str(path.parent)}
    record.update((name, result.get(name)) for name in _FIELDS)
    record["final_loss"] = float(record["final_loss"])
    record.update(flat(result["trained"]))
    record.update((f"untrained/{name}", value) for name, value in flat(result["untrained"]).items())
    return record


def _framed(records: list[dict[str, Any]], frame: bool | None) -> Any:
    if frame is False:
        return records
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return records
    return pandas.DataFrame.from_records(records)
