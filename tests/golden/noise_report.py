"""Golden numbers for the engine's noise report, from scikit-learn.

Run with numpy and scikit-learn installed, from the folder of this file:

    python noise_report.py   # writes noise_report.json
"""

import json

import numpy as np
from sklearn.metrics import average_precision_score, precision_score, recall_score, roc_auc_score

rng = np.random.default_rng(3)
cases = []
for levels in (2, 5, None):
    for share in (0.1, 0.5):
        n = 60
        flipped = rng.random(n) < share
        w = np.clip(rng.normal(np.where(flipped, 0.35, 0.7), 0.3), 0, 1)
        if levels:
            w = np.round(w * (levels - 1)) / (levels - 1)
        suspected = w < 0.5
        cases.append({
            "weights": w.tolist(),
            "flipped": flipped.tolist(),
            "weight_clean": float(w[~flipped].mean()),
            "weight_noisy": float(w[flipped].mean()),
            "auroc": float(roc_auc_score(flipped, 1 - w)),
            "average_precision": float(average_precision_score(flipped, 1 - w)),
            "precision": float(precision_score(flipped, suspected, zero_division=0)),
            "recall": float(recall_score(flipped, suspected)),
        })
with open("noise_report.json", "w") as file:
    json.dump(cases, file, indent=1)
    file.write("\n")
