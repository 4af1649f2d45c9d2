"""Counts with more zeros than their totals explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.kernels import Prior
from vbagg.likelihoods.base import Array, Facts, Learnt, Likelihood, Parameters
from vbagg.likelihoods.checks import check_counts
from vbagg.likelihoods.counts import Poisson, log_mass


@dataclass(frozen=True)
class ZeroInflatedPoisson(Likelihood):
    """Nothing is counted with the odds `zero_odds`, and `Poisson(T)` otherwise, as where some do not report.

    `T` is the expected count of a bag that reports. Learns `zero_odds`: the probability of nothing over the rest.
    """

    name = "zero_inflated_poisson"
    links = ("exp", "square")
    counts = True
    individual_effect = True
    outputs = "counts"
    refused = Poisson.refused

    def priors(self) -> dict[str, Prior]:  # noqa: D102
        return {"zero_odds": Prior(0.1, 1.5)}

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        check_counts(y, labels, self.name)

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        counted = log_mass(y, T, jnp.asarray(spread))
        log_odds = p["zero_odds"]
        return jnp.where(y == 0, jnp.logaddexp(log_odds, counted), counted) - jax.nn.softplus(log_odds)

    def mean(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return T / (1 + np.exp(p["zero_odds"]) if isinstance(T, np.ndarray) else 1 + jnp.exp(p["zero_odds"]))

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        share = 1 / (1 + jnp.exp(p["zero_odds"]))
        return share * T * (1 + (1 - share) * T)

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        odds = learnt["zero_odds"]
        return np.where(rng.random(T.shape) < odds / (1 + odds), 0.0, rng.poisson(T))
