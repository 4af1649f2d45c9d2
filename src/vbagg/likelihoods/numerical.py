"""Prediction and simulation for a likelihood of which only its log density and two moments are known.

Log densities of arrays of many shapes are evaluated in blocks of few, so that they are compiled seldom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy.special import logsumexp

from vbagg import laws
from vbagg.compiling import jit

if TYPE_CHECKING:
    from vbagg.likelihoods.base import Likelihood

SMALLEST_BLOCK, LARGEST_BLOCK = 256, 1 << 16


@jit(static_argnames="likelihood")
def _log_density(likelihood: Likelihood, y: Any, T: Any, facts: dict[str, Any], p: dict[str, Any]) -> jax.Array:
    return likelihood.log_prob(y, T, facts, p)


def log_density(likelihood: Likelihood, y: Any, T: Any, facts: dict[str, Any], p: dict[str, Any]) -> np.ndarray:
    """`likelihood.log_prob` of NumPy arrays, of the shape that they have together."""
    y, T, *values = np.broadcast_arrays(y, T, *facts.values())
    flat = [np.ravel(array).astype(float) for array in (y, T, *values)]
    size = min(
        max(SMALLEST_BLOCK, 1 << max(y.size - 1, 1).bit_length()), LARGEST_BLOCK // likelihood.numbers_per_output
    )
    found = np.empty(y.size)
    with jax.enable_x64(True):
        learnt = {name: np.asarray(value, float) for name, value in p.items()}
        for start in range(0, y.size, size):
            short = max(start + size - y.size, 0)
            y_, T_, *own = (np.pad(array[start : start + size], (0, short), mode="edge") for array in flat)
            part = _log_density(likelihood, y_, T_, dict(zip(facts, own, strict=True)), learnt)
            found[start : start + size] = np.asarray(part)[: size - short]
    return found.reshape(y.shape)


def mixed_law(likelihood: Likelihood, total: laws.Law, facts: dict[str, Any], p: dict[str, Any]) -> laws.NumericalLaw:
    """Distribution of an output whose total follows `total`: its density averaged over nodes of the total."""
    T, log_weight = laws.total_nodes(total)

    def log_prob(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        own = {name: np.asarray(value)[rows] for name, value in facts.items()}
        given = log_density(likelihood, y[:, None, :], T[:, rows], own, p)
        return logsumexp(given + log_weight[:, rows], axis=1)

    with jax.enable_x64(True):
        expected = np.asarray(likelihood.mean(T, facts, p))
        noise = np.asarray(likelihood.variance(T, facts, p))
    weight = np.exp(log_weight)
    mean = np.sum(weight * expected, axis=0)
    variance = np.sum(weight * (noise + (expected - mean) ** 2), axis=0)
    lower, upper = likelihood.support(facts)
    return laws.NumericalLaw(log_prob, mean, np.sqrt(variance), likelihood.counts, lower, upper)


def draw_outputs(
    likelihood: Likelihood, T: np.ndarray, facts: dict[str, Any], p: dict[str, Any], rng: np.random.Generator
) -> np.ndarray:
    """Outputs drawn for totals (s, b) by inverting the distribution function of each."""
    many = {name: np.broadcast_to(value, T.shape).ravel() for name, value in facts.items()}
    law = mixed_law(likelihood, laws.Normal(T.ravel(), 0.0), many, p)
    return law.sample(1, rng).reshape(T.shape)
