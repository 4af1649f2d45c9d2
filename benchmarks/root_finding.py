"""Quantiles by the project's own root finder beside `scipy.optimize.elementwise.find_root`, same distributions.

    python benchmarks/root_finding.py [--rows 4000] [--out benchmarks/results/root_finding.json]

Both are Chandrupatla's method on all rows at once. Ours works on normal scores, begins counts at their place on a
logarithmic scale, and ends a row of counts as soon as no whole number is left between its ends; SciPy has one tolerance
for all rows. CPU seconds, calls of the distribution function for single rows, and the largest relative difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from common import machine, timed, write_json
from scipy.optimize import elementwise
from scipy.special import ndtri

from vbagg.laws import counts, lognormal_mixtures, mixture
from vbagg.laws.base import Law
from vbagg.laws.numerics import first_reaching

LEVELS = (0.025, 0.25, 0.5, 0.9, 0.975)
USERS = (counts, lognormal_mixtures, mixture)
Finder = Callable[..., np.ndarray]


def by_scipy(cdf: Any, q: float, lower: np.ndarray, upper: np.ndarray, *, whole: bool = False) -> np.ndarray:
    """`first_reaching` by SciPy, counts on the scale of log(1 + x)."""
    forward, back = (np.log1p, lambda u: np.floor(np.expm1(u))) if whole else (np.asarray, np.asarray)

    def score(u: np.ndarray, rows: np.ndarray) -> np.ndarray:
        probability = cdf(back(u), rows.astype(int))
        off = np.clip(ndtri(probability), -40, 40) - ndtri(q)
        return np.where(probability >= q, np.maximum(off, 0.0), np.minimum(off, -np.finfo(float).tiny))

    rows = np.arange(len(lower), dtype=float)
    low = score(forward(lower), rows) < 0
    tolerance = {"xatol": 0.49 / (1 + upper.max()), "xrtol": 0} if whole else {"xatol": 0, "xrtol": 1e-11}
    ends = (forward(lower[low]), forward(upper[low]))
    found = elementwise.find_root(score, ends, args=(rows[low],), tolerances={**tolerance, "fatol": 0}, maxiter=200)
    result = lower.astype(float)
    result[low] = back(np.where(found.f_bracket[1] >= 0, found.bracket[1], found.bracket[0]))
    return result


def distributions(n: int) -> dict[str, Law]:
    """Distributions of all sizes and spreads whose quantiles are found numerically."""
    rng = np.random.default_rng(3)
    mean, relative = np.exp(rng.uniform(-2, 9, n)), np.exp(rng.uniform(-3, 1, n))
    log_mean, log_sd = np.log(mean), np.sqrt(relative)
    few = slice(0, n // 5)
    eight = np.full(8, 1 / 8)
    shifts = 0.1 * np.arange(8)
    return {
        "negative binomial": counts.NegativeBinomial(mean, 1 / relative),
        "beta-binomial": counts.BetaBinomial(np.full(n // 5, 500), *rng.uniform(0.5, 20, (2, n // 5))),
        "Poisson log-normal": lognormal_mixtures.PoissonLogNormal(log_mean[few], log_sd[few]),
        "exponential log-normal": lognormal_mixtures.ExponentialLogNormal(log_mean[few], log_sd[few]),
        "mixture of negative binomials": mixture.Mixture(
            [counts.NegativeBinomial(mean * np.exp(s), 1 / relative) for s in shifts], eight
        ),
    }


def quantiles(law: Law, finder: Finder) -> tuple[np.ndarray, float, int]:
    """Quantiles with this finder, CPU seconds and rows evaluated."""
    evaluated = 0

    def counted(cdf: Any, *arguments: Any, **options: Any) -> np.ndarray:
        def inner(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
            nonlocal evaluated
            evaluated += len(x)
            return cdf(x, rows)

        return finder(inner, *arguments, **options)

    for module in USERS:
        module.first_reaching = counted
    with timed() as clock:
        found = np.stack([law.quantile(q) for q in LEVELS])
    return found, clock.cpu, evaluated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--out", default=None)
    options = parser.parse_args()
    rows = []
    for name, law in distributions(options.rows).items():
        ours, own_cpu, own_calls = quantiles(law, first_reaching)
        theirs, cpu, calls = quantiles(law, by_scipy)
        difference = float(np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours))))
        rows.append({"distribution": name, "cpu": own_cpu, "scipy_cpu": cpu, "rows": own_calls, "scipy_rows": calls})
        rows[-1] |= {"cpu_ratio": cpu / own_cpu, "largest_difference": difference}
        print(*(f"{key} {value:.3g}" if isinstance(value, float) else value for key, value in rows[-1].items()))
    if options.out:
        write_json(options.out, {"rows": rows, "machine": machine()})


if __name__ == "__main__":
    main()
