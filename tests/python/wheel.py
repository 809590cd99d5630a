"""Uses the Python module of an installed wheel on the runs in the current folder.

usage: wheel.py SITE

SITE is a folder of packages with NumPy. Fails with an AssertionError if something is not as it should be.
"""

import math
import pathlib
import sys

sys.path.append(sys.argv[1])

import numpy

import curricle

records = curricle.runs("runs", frame=False)
assert sorted(record["method"] for record in records) == ["bspml", "ms"], records
for record in records:
    assert 0 <= record["recall@1"] <= 1 and 0 <= record["untrained/recall@1"] <= 1, record
    assert (record["epochs"], record["seed"]) == (1, 0), record
curves = curricle.metrics(records[0]["run"], frame=False)
assert curricle.metrics(records[0], frame=False) == curves
assert curricle.metrics(pathlib.Path(records[0]["run"]), frame=False) == curves
for wrong in ({"method": "ms"}, 3, None):
    try:
        curricle.metrics(wrong)
    except TypeError as error:
        assert "a record of `curricle.runs`" in str(error), error
    else:
        raise AssertionError(f"{wrong} was accepted as a run")
losses = [point["value"] for point in curves if point["tag"] == "train/loss"]
assert losses and all(map(math.isfinite, losses)), curves
assert curves[0].keys() == {"step", "epoch", "tag", "value"}, curves[0]

# Two classes on two axes: every neighbour is of the same class, except for the last sample, which is on the wrong axis.
embeddings = numpy.array([[1, 0.0], [1, 0.1], [0.0, 1], [0.1, 1], [1, 0.05]], dtype=numpy.float32)
labels = numpy.array([0, 0, 1, 1, 1])
found = curricle.evaluate(embeddings, labels, recall=[1, 2], cluster=False, device="cpu")
assert (found["recall@1"], found["queries"], found["classes"]) == (0.4, 5, 2), found
columns = numpy.asfortranarray(embeddings.astype(">f4"))
assert curricle.evaluate(columns, labels, recall=[1, 2], cluster=False, device="cpu") == found
assert curricle.evaluate(embeddings.tolist(), labels.tolist(), recall=[1, 2], cluster=False, device="cpu") == found
try:
    curricle.evaluate(embeddings, labels[:4])
except ValueError as error:
    assert str(error).startswith("`embeddings`: `labels` has shape [4]"), error
    assert "\n" not in str(error), error
else:
    raise AssertionError("labels of the wrong length were accepted")
try:
    curricle.evaluate(embeddings, labels, recall=[0])
except ValueError as error:
    assert str(error).startswith("invalid value '0' for '--recall") and "\n" not in str(error), error
else:
    raise AssertionError("Recall@0 was accepted")
for name, wrong in {"embeddings": [["a"]] * 5, "labels": list("aabbb"), "query": ["yes", "no", "no", "no", "no"]}.items():
    try:
        curricle.evaluate(**{"embeddings": embeddings, "labels": labels, name: wrong})
    except ValueError as error:
        assert str(error).startswith(f"`{name}` has the type `<U"), error
    else:
        raise AssertionError(f"{name} as text was accepted")

# Losses in Python run in the interpreter that the wheel is installed in.
assert curricle._program.environment()["CURRICLE_PYTHON"] == sys.executable

assert (curricle.include() / "curricle.h").is_file() and (curricle.sdk() / "Cargo.toml").is_file()
assert (pathlib.Path(curricle.__file__).parent / "py.typed").is_file()
