"""What a likelihood learns, estimated from outputs whose totals are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from vbagg.likelihoods.base import Facts, Learnt, Likelihood
from vbagg.likelihoods.numerical import log_density

LARGEST_LOG = 15.0
FACTORS, MOST_TURNS, CLOSE = (0.3, 3.0), 50, 1e-8
"""By what a rate changes at most in one turn, how many there are, and when it stays."""


def estimate_noise(likelihood: Likelihood, y: np.ndarray, T: np.ndarray, facts: Facts, spent: float = 0.0) -> Learnt:
    """The single parameter, if there is one, that makes the outputs most likely.

    A likelihood may have a better estimate, for which `spent` degrees of freedom are already gone.
    """
    estimate = likelihood.moment_estimate(y, T, facts, spent)
    if estimate is not None:
        return estimate
    names = list(likelihood.priors())
    if not names:
        return {}
    from scipy.optimize import minimize_scalar

    (name,) = names

    def loss(log_value: float) -> float:
        return -float(np.sum(log_density(likelihood, y, T, facts, {name: log_value})))

    found = minimize_scalar(loss, bounds=(-LARGEST_LOG, LARGEST_LOG), method="bounded", options={"xatol": 1e-8})
    return {name: float(np.exp(found.x))}


def estimate_rate(
    likelihood: Likelihood, y: np.ndarray, share: np.ndarray, facts: Facts, start: float
) -> tuple[float, Learnt]:
    """The rate that makes outputs with the totals `rate * share` most likely, and the noise, each given the other."""
    from scipy.optimize import minimize_scalar

    rate, noise = start, estimate_noise(likelihood, y, start * share, facts)
    for _ in range(MOST_TURNS):
        logs, before = likelihood.logs(noise), rate

        def loss(factor: float, logs: Any = logs, before: float = before) -> float:
            return -float(np.sum(log_density(likelihood, y, before * factor * share, facts, logs)))

        rate = before * float(minimize_scalar(loss, bounds=FACTORS, method="bounded", options={"xatol": 1e-9}).x)
        noise = estimate_noise(likelihood, y, rate * share, facts)
        if abs(rate / before - 1) < CLOSE:
            break
    return rate, noise
