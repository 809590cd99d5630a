"""Results of curricle in notebooks.

The program itself is the command ``curricle``. This module reads what it writes::

    import curricle

    runs = curricle.runs("runs", frame=False)   # one record per finished run
    curricle.metrics(runs[0])                   # the curves of one run, by record or folder
    curricle.evaluate(embeddings, labels)       # the exact evaluator, on arrays or tensors
"""

from ._program import executable, include, sdk
from ._evaluate import evaluate
from ._runs import metrics, runs
from ._version import __version__

__all__ = ["__version__", "evaluate", "executable", "include", "metrics", "runs", "sdk"]
