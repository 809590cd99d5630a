"""Golden numbers for the statistics of reports, from scipy.

Run with numpy and scipy (1.13 or newer) installed, from the folder of this file:

    python report_statistics.py   # writes report_statistics.json
"""

import itertools
import json

import numpy as np
from scipy import stats

rng = np.random.default_rng(11)


def sign_flip(differences):
    """Every assignment of signs is enumerated; scipy's own version resamples the same way."""
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((1, -1), repeat=len(differences))]
    return float(np.mean(np.array(sums) >= abs(np.sum(differences)) * (1 - 1e-12)))


def case(first, second):
    first, second = np.asarray(first, float), np.asarray(second, float)
    differences = first - second
    spread = {
        "mean": float(first.mean()),
        "std": float(first.std(ddof=1)),
        "interval": [float(v) for v in stats.t.interval(0.95, len(first) - 1, first.mean(), stats.sem(first))],
    }
    # With ties or zeros scipy's table for the exact distribution does not hold; all signs are tried instead.
    tied = len(set(np.abs(differences))) < len(differences) or (differences == 0).any()
    method = stats.PermutationMethod(n_resamples=2 ** (len(differences) + 1)) if tied else "exact"
    by_resampling = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    ).pvalue
    flipped = sign_flip(differences)
    assert abs(by_resampling - flipped) < 1e-12, (by_resampling, flipped)
    return {
        "first": first.tolist(),
        "second": second.tolist(),
        "spread": spread,
        "t": float(stats.ttest_rel(first, second).pvalue),
        "wilcoxon": float(stats.wilcoxon(first, second, zero_method="wilcox", method=method).pvalue),
        "sign_flip": flipped,
    }


cases = []
for n in (2, 3, 5, 8, 12):
    for shift in (0.0, 0.01, 0.05):
        base = rng.normal(0.7, 0.02, n)
        cases.append(case(base + rng.normal(shift, 0.01, n), base))
# Ties among the sizes of differences, and a difference of zero; powers of two, so that they are exact.
cases.append(case([0.75, 0.5, 0.625, 0.875, 0.5], [0.625, 0.625, 0.5, 0.625, 0.375]))
cases.append(case([0.75, 0.5, 0.625, 0.875, 0.5, 0.25], [0.75, 0.625, 0.5, 0.625, 0.375, 0.125]))

with open("report_statistics.json", "w") as file:
    json.dump({"made_with": f"scipy {__import__('scipy').__version__}", "cases": cases}, file, indent=1)
    file.write("\n")
