"""What a likelihood learns, estimated from outputs whose totals are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.likelihoods.base import Facts, Learnt, Likelihood

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
    with jax.enable_x64(True):
        observed, totals = jnp.asarray(y), jnp.asarray(T)

        def loss(log_value: float) -> float:
            return -float(jnp.sum(likelihood.log_prob(observed, totals, facts, {name: jnp.asarray(log_value)})))

        bounds = (-LARGEST_LOG, LARGEST_LOG)
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return {name: float(np.exp(found.x))}
