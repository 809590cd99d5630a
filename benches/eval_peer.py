"""The faiss side of `cargo bench -p curricle-eval --bench eval`; needs numpy and faiss-cpu.

Arguments: samples, dimensions, classes, threads. Standard input: the embeddings as little-endian
f32, then one task per line (`search` or `kmeans`). The answer to each is `SECONDS OUTCOME`.
"""

import sys
import time

import faiss
import numpy as np

samples, dim, classes, threads = map(int, sys.argv[1:])
faiss.omp_set_num_threads(threads)
x = np.frombuffer(sys.stdin.buffer.read(samples * dim * 4), dtype="<f4").reshape(samples, dim)
labels = np.arange(samples) % classes


def search():
    """Searches the 33 nearest by inner product, including the query itself; returns Recall@1."""
    index = faiss.IndexFlatIP(dim)
    index.add(x)
    _, found = index.search(x, 33)
    first = np.where(found[:, 0] == np.arange(samples), found[:, 1], found[:, 0])
    return np.mean(labels[first] == labels)


def kmeans():
    """Runs at most 20 iterations over all samples (faiss also stops on convergence); returns the last objective."""
    options = dict(niter=20, seed=1, min_points_per_centroid=1, max_points_per_centroid=samples)
    clustering = faiss.Kmeans(dim, classes, **options)
    clustering.train(x)
    return clustering.obj[-1]


for line in sys.stdin.buffer:
    task = {"search": search, "kmeans": kmeans}[line.decode().strip()]
    start = time.perf_counter()
    outcome = task()
    print(time.perf_counter() - start, float(outcome), flush=True)
