"""Golden vectors for `plugins/weights`, from the printed formulas in NumPy f64.

Written apart from the Rust code: pair by pair, no collapsed sums. Run with numpy and safetensors
installed, from the folder of this file:

    python weights.py        # writes weights.safetensors
"""

import numpy as np
from safetensors.numpy import save_file


def xi(x, labels, alpha, beta, rho):
    n = len(labels)
    s = x @ x.T
    pos, neg = np.zeros(n), np.zeros(n)
    for a in range(n):
        p = [np.exp(-alpha * (s[a, b] - rho)) for b in range(n) if b != a and labels[b] == labels[a]]
        q = [np.exp(beta * (s[a, b] - rho)) for b in range(n) if labels[b] != labels[a]]
        pos[a] = np.log1p(np.sum(p)) / alpha
        neg[a] = np.log1p(np.sum(q)) / beta
    return pos, neg


def objective(w, labels, pos, neg, lam, mu):
    classes = sorted(set(labels.tolist()))
    size = {c: float(np.sum(labels == c)) for c in classes}
    zeta = {c: float(np.sum(w[labels == c])) for c in classes}
    others = len(classes) - 1
    value = 0.0
    for a, c in enumerate(labels.tolist()):
        inner = 0.0
        if size[c] > 1:
            inner += (zeta[c] - w[a]) / (size[c] - 1) * pos[a]
        if others:
            inner += sum(zeta[k] / size[k] for k in classes if k != c) / others * neg[a]
        value += w[a] / size[c] * inner
    value -= lam * sum(zeta[c] / size[c] for c in classes)
    if others:
        pairs = [(c, k) for i, c in enumerate(classes) for k in classes[i + 1:]]
        value += mu / others * sum((zeta[c] / size[c] - zeta[k] / size[k]) ** 2 for c, k in pairs)
    return value


def gradient(w, *problem):
    """L is quadratic in each weight, so central differences are exact up to rounding."""
    g = np.zeros(len(w))
    for a in range(len(w)):
        up, down = w.copy(), w.copy()
        up[a] += 0.5
        down[a] -= 0.5
        g[a] = objective(up, *problem) - objective(down, *problem)
    return g


def descend(w, rng, *problem, sweeps=30):
    """Coordinate descent in random order, each step from three values of the objective."""
    w = w.copy()
    for _ in range(sweeps):
        before = w.copy()
        for a in rng.permutation(len(w)):
            at = []
            for v in (0.0, 0.5, 1.0):
                w[a] = v
                at.append(objective(w, *problem))
            square = 2 * (at[2] + at[0] - 2 * at[1])
            slope = at[2] - at[0] - square
            w[a] = np.clip(-slope / (2 * square), 0, 1) if square > 1e-12 else float(slope < 0)
        if np.max(np.abs(w - before)) < 1e-7:
            break
    return w


def averages(w, labels):
    z = np.array([np.mean(w[labels == c]) for c in sorted(set(labels.tolist()))])
    return np.mean(z), np.std(z)


def main():
    rng = np.random.default_rng(20)
    layouts = {
        "even": np.repeat(np.arange(6), 8),
        "uneven": np.concatenate([np.repeat(0, 15), np.repeat(1, 2), np.repeat(2, 7), [3], np.repeat(4, 3)]),
        "one_class": np.zeros(7, dtype=int),
        "singles": np.arange(5),
    }
    out = {}
    for name, layout in layouts.items():
        labels = rng.permutation(layout).astype(np.int64)
        centres = rng.normal(size=(labels.max() + 1, 10))
        x = centres[labels] + 0.6 * rng.normal(size=(len(labels), 10))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        # A few wrong labels, within the classes that there are.
        wrong = rng.choice(len(labels), len(labels) // 6, replace=False)
        labels[wrong] = rng.choice(labels, len(wrong))
        w = rng.random(len(labels))
        alpha, beta, rho = 2.0, 50.0, 0.5
        pos, neg = xi(x, labels, alpha, beta, rho)
        for mu in (0.0, 1.5):
            lam = 1.7 * float(np.mean(pos + neg)) + 0.01
            problem = (labels, pos, neg, lam, mu)
            ends = [objective(descend(np.ones(len(w)), rng, *problem), *problem) for _ in range(5)]
            case = {
                "embeddings": x, "labels": labels, "weights": w, "xi_pos": pos, "xi_neg": neg,
                "settings": np.array([alpha, beta, rho, lam, mu]),
                "objective": np.array([objective(w, *problem)]),
                "gradient": gradient(w, *problem),
                "maw_sdaw": np.array(averages(w, labels)),
                "random_order": np.array(ends),
            }
            out.update({f"{name}.{mu}.{key}": np.ascontiguousarray(value) for key, value in case.items()})
    save_file(out, "weights.safetensors")


main()
