"""Positive outputs with an exponential distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from vbagg import laws
from vbagg.likelihoods.base import Array, Facts, Learnt, Lemma1, Likelihood, Parameters
from vbagg.likelihoods.checks import check_nonnegative
from vbagg.likelihoods.within import Terms, log_difference

LEAST_SPREAD = 1e-12


@dataclass(frozen=True)
class Exponential(Likelihood):
    """`y` exponential with mean `T`."""

    name = "exponential"
    links = ("exp",)
    bounds = ("reciprocal",)
    refused: ClassVar[dict[str, str]] = {
        "square": "E[1/f^2] is infinite for Gaussian f, and so is E[1/T] of a bag whose covariance has rank two"
        " or less, so the objective would not exist; use 'exp'",
        "identity": "an exponential mean cannot be negative; use 'exp'",
        "logistic": "a mean is not bounded by one; use 'exp'",
    }

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        check_nonnegative(y, labels, "an exponential output")

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        a, scale = _lomax(T, spread)
        return jnp.log(a / (a - 1)) - jnp.log(T) - (a + 1) * jnp.log1p(y / scale)

    def log_interval(  # noqa: D102
        self, lower: Any, upper: Any, T: Any, facts: Facts, p: Parameters, spread: Any, terms: Terms
    ) -> Array:
        a, scale = _lomax(T, spread)
        ends = jnp.isfinite(upper) & (upper > lower)
        above_low, above_high = (
            -a * jnp.log1p(end / scale) for end in (lower, jnp.where(ends, upper, 2 * lower + scale))
        )
        return jnp.where(ends, log_difference(above_low, above_high), above_low)

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return T**2

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:  # noqa: D102
        return -y * lower.reciprocal - jnp.log(M)

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        return laws.ExponentialLogNormal.from_moments(total.mean, total.std**2)

    def predictive_with_error(  # noqa: D102
        self, total: laws.Law, facts: Facts, learnt: Learnt, rho: np.ndarray
    ) -> laws.Law | None:
        variance = total.std**2 + rho * (total.mean**2 + total.std**2)
        return laws.ExponentialLogNormal.from_moments(total.mean, variance)

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.exponential(T)

    def support(self, facts: Facts) -> tuple[Any, Any]:  # noqa: D102
        return 0.0, np.inf


def _lomax(T: Any, spread: Any) -> tuple[Array, Array]:
    """Shape and scale: 1/T is gamma with the shape a = 2 + 1/spread, so that outputs have the scale b = (a - 1) T."""
    a = 2 + 1 / jnp.maximum(jnp.asarray(spread), LEAST_SPREAD)
    return a, (a - 1) * T
