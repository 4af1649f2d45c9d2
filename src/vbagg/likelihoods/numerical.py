"""Prediction and simulation for a likelihood of which only its log density and two moments are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy.special import logsumexp

from vbagg import laws

if TYPE_CHECKING:
    from vbagg.likelihoods.base import Likelihood


def mixed_law(likelihood: Likelihood, total: laws.Law, facts: dict[str, Any], p: dict[str, Any]) -> laws.NumericalLaw:
    """Distribution of an output whose total follows `total`: its density averaged over nodes of the total."""
    T, log_weight = laws.total_nodes(total)

    def log_prob(y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        own = {name: np.asarray(value)[rows] for name, value in facts.items()}
        with jax.enable_x64(True):
            given = np.asarray(likelihood.log_prob(y[:, None, :], T[:, rows], own, p))
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
