"""What a likelihood learns, estimated from outputs whose totals are known."""

from __future__ import annotations

import numpy as np

from vbagg.likelihoods.base import Facts, Learnt, Likelihood
from vbagg.likelihoods.numerical import log_density

LARGEST_LOG = 15.0


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
