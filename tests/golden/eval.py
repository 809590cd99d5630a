"""Writes eval.json: what other libraries say about small embeddings and partitions.

    pip install numpy==2.* scikit-learn==1.9.1 pytorch-metric-learning==2.9.0 torch==2.13.0
    python tests/golden/eval.py

R-precision and MAP@R come from pytorch-metric-learning's AccuracyCalculator (cosine similarity),
Recall@K from scikit-learn's brute-force neighbours, NMI and AMI from scikit-learn.
"""

import json
import pathlib

import numpy as np
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors

KS = [1, 2, 4, 8, 16]


def recall(query, query_labels, reference, reference_labels, same):
    """Recall@K by K, without queries whose class has no other sample."""
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (query, reference)]
    search = NearestNeighbors(n_neighbors=max(KS) + same, algorithm="brute").fit(unit[1])
    found = search.kneighbors(unit[0], return_distance=False)
    result = {k: [] for k in KS}
    for i, (label, neighbours) in enumerate(zip(query_labels, found)):
        if np.sum(reference_labels == label) - same == 0:
            continue
        neighbours = [n for n in neighbours if not (same and n == i)]
        for k in KS:
            result[k].append(np.any(reference_labels[neighbours[:k]] == label))
    return {str(k): float(np.mean(v)) for k, v in result.items()}


def ranking(query, query_labels, reference, reference_labels, same):
    calculator = AccuracyCalculator(
        include=("r_precision", "mean_average_precision_at_r", "precision_at_1"),
        k="max_bin_count",
        knn_func=CustomKNN(CosineSimilarity()),
        device=torch.device("cpu"),
    )
    tensors = [torch.from_numpy(x) for x in (query, query_labels, reference, reference_labels)]
    values = calculator.get_accuracy(*tensors, ref_includes_query=same)
    recalls = recall(query, query_labels, reference, reference_labels, same)
    assert abs(values["precision_at_1"] - recalls["1"]) < 1e-6
    return {
        "recall": recalls,
        "r_precision": float(values["r_precision"]),
        "map_at_r": float(values["mean_average_precision_at_r"]),
    }


def partitions(rng):
    for n, classes, clusters, copied in [(60, 7, 5, 0.7), (200, 40, 40, 0.5), (150, 3, 60, 0.0), (40, 1, 6, 0.0)]:
        a = rng.integers(0, classes, n)
        b = np.where(rng.random(n) < copied, a % clusters, rng.integers(0, clusters, n))
        yield {
            "a": a.tolist(),
            "b": b.tolist(),
            "nmi": float(normalized_mutual_info_score(a, b)),
            "ami": float(adjusted_mutual_info_score(a, b)),
        }


def main():
    rng = np.random.default_rng(7)
    # Classes of very different size, two of them with a single sample.
    labels = np.repeat(np.arange(9), [1, 2, 3, 5, 8, 13, 20, 27, 1])
    rng.shuffle(labels)
    embeddings = rng.standard_normal((9, 6))[labels] + 1.3 * rng.standard_normal((len(labels), 6))
    embeddings = np.round(embeddings, 3).astype("f4")
    query = rng.random(len(labels)) < 0.4
    gallery = ~query
    golden = {
        "made_by": "tests/golden/eval.py",
        "embeddings": [[round(float(v), 3) for v in row] for row in embeddings],
        "labels": labels.tolist(),
        "query": query.tolist(),
        "each_against_all_others": ranking(embeddings, labels, embeddings, labels, True),
        "query_against_gallery": ranking(embeddings[query], labels[query], embeddings[gallery], labels[gallery], False),
        "partitions": list(partitions(rng)),
    }
    path = pathlib.Path(__file__).with_name("eval.json")
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
