"""`curricle audit` beside cleanlab: how well do they rank wrong labels, and how many do they suspect?

Both get the same features and the same noisy labels, which `curricle run` draws. cleanlab gets out-of-sample
probabilities of a logistic regression in five folds. Needs `pip install cleanlab scikit-learn safetensors`.

    python benches/audit_peer.py features.safetensors --program target/release/curricle --draws 3

The file has `features [N,F]` and `labels [N]`; the first half of the classes is audited.
"""

import argparse
import csv
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

CASES = [("uniform", 0.2), ("uniform", 0.05), ("similar", 0.2), ("similar", 0.05), ("none", 0.0)]
METHODS = ["self_confidence", "normalized_margin"]
RECIPE = """
seed = {seed}
[data]
source = "features"
path = {path}
[noise]
{noise}
[backbone]
name = "linear"
[embedding]
size = 128
[sampler]
name = "pk"
classes = 16
per_class = 4
[loss]
name = "bspml"
[weights]
name = "balanced_self_paced"
[optimizer]
name = "adam"
lr = 1e-3
[train]
epochs = {epochs}
[eval]
every = {epochs}
cluster = "never"
[track]
images = false
projector = false
"""


def scores(wrong, suspicion, suspects):
    """AUROC, average precision, and number of suspects."""
    if not wrong.any():
        return [np.nan, np.nan, suspects]
    return [roc_auc_score(wrong, suspicion), average_precision_score(wrong, suspicion), suspects]


def curricle(arguments, folder, kind, ratio, seed):
    """Scores and time of the audit; the training samples' rows, labels and true labels."""
    noise = f'name = "{kind}"' + (f"\nratio = {ratio}" if kind != "none" else "")
    recipe = folder / "audit.toml"
    path = json.dumps(str(Path(arguments.features).resolve()))
    recipe.write_text(RECIPE.format(seed=seed, path=path, noise=noise, epochs=arguments.epochs))
    runs = folder / f"{kind}-{ratio}-{seed}"
    start = time.perf_counter()
    subprocess.run([arguments.program, "run", recipe, "--out", runs], check=True, capture_output=True)
    trained = time.perf_counter()
    (run,) = (path.parent for path in runs.rglob("result.json"))
    subprocess.run([arguments.program, "audit", run], check=True, capture_output=True)
    audited = time.perf_counter()
    table = list(csv.DictReader((run / "audit.csv").open()))
    rows = np.array([int(row["sample"]) for row in table])
    wrong = np.array([row.get("original", row["label"]) != row["label"] for row in table])
    suspects = sum(row["suspected"] == "true" for row in table)
    names = {name: index for index, name in enumerate(sorted({row["label"] for row in table}))}
    labels = np.array([names[row["label"]] for row in table])
    found = scores(wrong, -np.arange(len(table)), suspects) + [trained - start, audited - trained]
    order = np.argsort(rows)
    return found, labels[order], wrong[order]


def cleanlab(features, labels, wrong):
    """The same of cleanlab, for each of two ways to score a label."""
    start = time.perf_counter()
    scaled = StandardScaler().fit_transform(features)
    model = LogisticRegression(C=0.01, max_iter=200)
    probabilities = cross_val_predict(model, scaled, labels, cv=5, method="predict_proba")
    suspects = find_label_issues(labels, probabilities).sum()
    seconds = time.perf_counter() - start
    quality = [get_label_quality_scores(labels, probabilities, method=method) for method in METHODS]
    return [scores(wrong, -quality, suspects) + [seconds] for quality in quality]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("features")
parser.add_argument("--program", default="target/release/curricle")
parser.add_argument("--draws", type=int, default=3)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--without-peer", action="store_true", help="run curricle only")
arguments = parser.parse_args()
data = load_file(arguments.features)
classes = np.unique(data["labels"])
features = data["features"][np.isin(data["labels"], classes[: len(classes) // 2])].astype(np.float32)
print("| noise | wrong | tool | AUROC | AP | suspects | seconds |\n| --- | --- | --- | --- | --- | --- | --- |")
with tempfile.TemporaryDirectory() as folder:
    for kind, ratio in CASES:
        ours, theirs = [], []
        for seed in range(arguments.draws):
            found, labels, wrong = curricle(arguments, Path(folder), kind, ratio, seed)
            ours.append(found)
            if not arguments.without_peer:
                theirs.append(cleanlab(features, labels, wrong))
        case = f"| {kind} {ratio:.0%} | {wrong.sum()} "
        a, p, n, training, audit = np.mean(ours, 0)
        print(f"{case}| curricle | {a:.3f} | {p:.3f} | {n:.0f} | {training:.0f} + {audit:.0f} |", flush=True)
        for method, (a, p, n, seconds) in zip(METHODS, np.mean(theirs, 0) if theirs else []):
            print(f"{case}| cleanlab, {method} | {a:.3f} | {p:.3f} | {n:.0f} | {seconds:.0f} |", flush=True)
