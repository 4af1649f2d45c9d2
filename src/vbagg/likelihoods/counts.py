"""Counts: Poisson, and the negative binomial that is a Poisson with a gamma effect of each bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from vbagg import laws
from vbagg.kernels import Prior
from vbagg.likelihoods.base import Array, Facts, Learnt, Lemma1, Likelihood, Parameters
from vbagg.likelihoods.checks import check_counts
from vbagg.matched import Matched
from vbagg.special import log_rising

LEAST_DISPERSION = 1e-15


def log_mass(y: Array, T: Array, dispersion: Array) -> Array:
    """Log mass of a negative binomial with mean `T` and variance `T + dispersion T^2`; a Poisson's at zero."""
    size = 1 / jnp.maximum(dispersion, LEAST_DISPERSION)
    peak = jax.scipy.special.xlogy(y, T) - (y + size) * jnp.log1p(T / size)
    return log_rising(y, size) - gammaln(y + 1) + peak


@dataclass(frozen=True)
class Poisson(Likelihood):
    """`y ~ Poisson(T)`."""

    name = "poisson"
    links = ("exp", "square")
    counts = True
    individual_effect = True
    outputs = "counts"
    bounds = ("log_total",)
    refused: ClassVar[dict[str, str]] = {
        "identity": "a Poisson mean cannot be negative; use 'square' or 'exp'",
        "logistic": "a rate is not bounded by one; use 'square' or 'exp'",
    }

    def dispersion_of(self, p: Parameters) -> Any:
        """Relative variance of the bag's own effect."""
        return 0.0

    def check_outputs(self, y: np.ndarray, labels: Any, trials: np.ndarray | None) -> None:  # noqa: D102
        check_counts(y, labels, self.name)

    def _total_dispersion(self, p: Parameters, spread: Any) -> Array:
        phi = self.dispersion_of(p)
        return jnp.asarray(phi + spread + phi * spread)

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        return log_mass(y, T, self._total_dispersion(p, spread))

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return T + self.dispersion_of(p) * T**2

    def matched(  # noqa: D102
        self, y: Array, M: Array, V: Array, law: Matched, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        phi = jnp.maximum(jnp.broadcast_to(self._total_dispersion(p, spread), M.shape), LEAST_DISPERSION)
        constant = log_rising(y, 1 / phi) - gammaln(y + 1)
        return constant + y * law.expected_log(M, V) - (y + 1 / phi) * law.expected_log1p(M, V, phi)

    def bound(self, y: Array, M: Array, lower: Lemma1, facts: Facts, p: Parameters) -> Array:  # noqa: D102
        phi = jnp.maximum(self._total_dispersion(p, 0.0), LEAST_DISPERSION)
        constant = log_rising(y, 1 / phi) - gammaln(y + 1)
        return constant + y * lower.log_total - (y + 1 / phi) * jnp.log1p(phi * M)

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        return laws.NegativeBinomialMixture(total, self.effect_spread(learnt))

    def predictive_with_error(  # noqa: D102
        self, total: laws.Law, facts: Facts, learnt: Learnt, rho: np.ndarray
    ) -> laws.Law | None:
        phi = self.effect_spread(learnt)
        return laws.NegativeBinomialMixture(total, phi + rho + phi * rho)

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        phi = self.effect_spread(learnt)
        return rng.poisson(T * rng.gamma(1 / phi, phi, T.shape) if phi else T).astype(float)


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """`Var y = T + dispersion T^2`: a Poisson with a gamma effect of mean 1 per bag.

    Parameters
    ----------
    dispersion
        Known dispersion; learnt when None.
    """

    dispersion: float | None = None
    name = "negative_binomial"

    def __post_init__(self) -> None:
        if self.dispersion is not None and not self.dispersion > 0:
            raise ValueError(f"`dispersion` must be positive; got {self.dispersion!r}. Use 'poisson' for zero.")

    def priors(self) -> dict[str, Prior]:  # noqa: D102
        return {} if self.dispersion is not None else {"dispersion": Prior(0.3, 1.5)}

    def dispersion_of(self, p: Parameters) -> Any:  # noqa: D102
        return jnp.exp(p["dispersion"]) if self.dispersion is None else self.dispersion

    def effect_spread(self, learnt: Learnt) -> float:  # noqa: D102
        return float(self.dispersion or learnt["dispersion"])

    def without_effect(self, learnt: Learnt) -> Likelihood:  # noqa: D102
        return Poisson()
