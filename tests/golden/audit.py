"""Golden numbers for the audit's discriminant and noise model, from NumPy and SciPy.

Scores are computed by removing each sample and fitting again, the shares of wrong labels by a general
optimiser. Run with numpy and scipy installed, from the folder of this file:

    python audit.py   # writes audit.json
"""

import json

import numpy as np
from scipy.optimize import minimize

rng = np.random.default_rng(5)
count, size, classes = 48, 6, 4
truth = np.arange(count) % classes
centres = rng.normal(size=(classes, size))
features = centres[truth] + 0.8 * rng.normal(size=(count, size))
labels = truth.copy()
labels[[0, 7, 13, 20]] = (truth[[0, 7, 13, 20]] + [1, 2, 3, 1]) % classes
features = features.astype(np.float32).astype(np.float64)


def fit(x, y):
    """Class means and the scatter within classes."""
    means = np.stack([x[y == c].mean(0) for c in range(classes)])
    residuals = x - means[y]
    return means, residuals.T @ residuals


def scores(shrinkage):
    """Each sample's scores by the classes fitted to all others."""
    x = features / np.linalg.norm(features, axis=1, keepdims=True)
    freedom = count - classes
    whole = fit(x, labels)[1] / freedom
    ridge = shrinkage * np.trace(whole) / size * np.eye(size)
    trace = np.trace(np.linalg.inv(whole + ridge) @ whole)
    rows = []
    for i in range(count):
        others = np.arange(count) != i
        means, scatter = fit(x[others], labels[others])
        inverse = np.linalg.inv(scatter / freedom + ridge)
        sizes = np.bincount(labels[others], minlength=classes)
        row = []
        for c in range(classes):
            d = x[i] - means[c]
            row.append(-0.5 * (d @ inverse @ d - trace / sizes[c]))
        rows.append(row)
    return np.array(rows)


def kinds(s, temperature):
    """The probability of each label if right, wrong at random, and confused."""
    def softmax(a):
        e = np.exp(a - a.max())
        return e / e.sum()

    rows = []
    for i, y in enumerate(labels):
        p, q = softmax(s[i] / temperature), softmax(s[i] / (2 * temperature))
        confused = sum(p[z] * q[y] / (1 - q[z]) for z in range(classes) if z != y)
        rows.append([p[y], (1 - p[y]) / (classes - 1), confused])
    return np.array(rows)


def shares(k):
    """The most likely shares of the kinds, and the log-likelihood."""
    def loss(t):
        e = np.exp(np.append(t, 0) - max(*t, 0))
        return -np.log(k @ (e / e.sum())).sum()

    best = minimize(loss, [2.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10000})
    e = np.exp(np.append(best.x, 0) - max(*best.x, 0))
    return e / e.sum(), -best.fun


cases = []
for shrinkage, temperature in ((0.1, 1.0), (1.0, 4.0)):
    s = scores(shrinkage)
    k = kinds(s, temperature)
    _, likelihood = shares(k)
    cases.append({
        "shrinkage": shrinkage,
        "temperature": temperature,
        "scores": s.round(9).tolist(),
        "kinds": k.round(12).tolist(),
        "likelihood": likelihood,
    })
golden = {"features": features.tolist(), "labels": labels.tolist(), "classes": classes, "cases": cases}
with open("audit.json", "w") as out:
    json.dump(golden, out)
    out.write("\n")
