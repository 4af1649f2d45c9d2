"""Sums of real values with Normal noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from vbagg import laws
from vbagg.bags import BagTable
from vbagg.kernels import Prior
from vbagg.likelihoods.base import Array, Facts, Learnt, Likelihood, Parameters
from vbagg.likelihoods.within import Terms, log_difference
from vbagg.matched import Matched


@dataclass(frozen=True)
class Normal(Likelihood):
    """`y ~ N(T, tau sum_i w_i^2)`.

    Parameters
    ----------
    tau
        Known variance per squared weight: a number, an array in label order or a Series by label; learnt when None.
    """

    tau: Any = field(default=None, compare=False)
    known: bool = field(init=False)
    name = "normal"
    links = ("identity",)
    rates_per = 1.0
    relative_spread = False
    exact = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", self.tau is not None)

    def priors(self) -> dict[str, Prior]:  # noqa: D102
        return {} if self.known else {"tau": Prior(1.0, 3.0)}

    def facts(self, bags: BagTable, trials: np.ndarray | None, rate_scale: float = 1.0) -> Facts:
        """Known variance of each bag's output, or what multiplies `tau`: the sum of squared weights."""
        squares = bags.weight_squares()
        if not self.known:
            return {"tau_factor": squares * rate_scale**2}
        tau = known_variances(bags, self.tau)
        if not np.all(tau > 0):
            at = int(np.flatnonzero(~(tau > 0))[0])
            raise ValueError(f"`tau` must be positive; got {tau[at]:g} for bag {bags.labels[at]!r}.")
        return {"noise": squares * tau}

    def moment_estimate(self, y: np.ndarray, T: np.ndarray, facts: Facts, spent: float) -> Learnt | None:
        """Residual sum of squares over the residual degrees of freedom."""
        if self.known:
            return {}
        squares = (y - T) ** 2 / facts["tau_factor"]
        return {"tau": float(squares.sum() / max(len(squares) - spent, 1.0))}

    def in_users_units(self, log_values: Any, rate_scale: float) -> Learnt:  # noqa: D102
        return {name: float(np.exp(value)) * rate_scale**2 for name, value in log_values.items()}

    def variance(self, T: Any, facts: Facts, p: Parameters) -> Any:  # noqa: D102
        return facts["noise"] if self.known else facts["tau_factor"] * jnp.exp(p["tau"])

    def unit_variance(self, M: Any, V: Any = 0.0) -> Any:
        """One: the spread of a total is its variance."""
        return 1.0

    def log_prob(self, y: Any, T: Any, facts: Facts, p: Parameters, spread: Any = 0.0) -> Array:  # noqa: D102
        s2 = self.variance(T, facts, p) + spread
        return -0.5 * (jnp.log(2 * jnp.pi * s2) + (y - T) ** 2 / s2)

    def log_interval(  # noqa: D102
        self, lower: Any, upper: Any, T: Any, facts: Facts, p: Parameters, spread: Any, terms: Terms
    ) -> Array:
        sd = jnp.sqrt(self.variance(T, facts, p) + spread)
        ends = jnp.isfinite(upper) & (upper > lower)
        low, high = (lower - T) / sd, (jnp.where(ends, upper, lower + 1.0) - T) / sd
        above = low > 0
        # in the tail where probabilities are small
        near, far = jnp.where(above, -low, high), jnp.where(above, -high, low)
        within = log_difference(log_ndtr(near), log_ndtr(far))
        return jnp.where(ends, within, log_ndtr(-low))

    def matched(  # noqa: D102
        self, y: Array, M: Array, V: Array, law: Matched, facts: Facts, p: Parameters, spread: Any = 0.0
    ) -> Array:
        return self.log_prob(y, M, facts, p, spread) - V / (2 * (self.variance(M, facts, p) + spread))

    def predictive(self, total: laws.Law, facts: Facts, learnt: Learnt) -> laws.Law:  # noqa: D102
        return laws.Normal.from_moments(total.mean, total.std**2 + self._noise(facts, learnt))

    def predictive_with_error(  # noqa: D102
        self, total: laws.Law, facts: Facts, learnt: Learnt, rho: np.ndarray
    ) -> laws.Law | None:
        variance = total.std**2 + rho * (total.mean**2 + total.std**2)
        return laws.Normal.from_moments(total.mean, variance + self._noise(facts, learnt))

    def simulate(self, T: np.ndarray, facts: Facts, learnt: Learnt, rng: np.random.Generator) -> np.ndarray:  # noqa: D102
        return rng.normal(T, np.sqrt(self._noise(facts, learnt)))

    def _noise(self, facts: Facts, learnt: Learnt) -> np.ndarray:
        return facts["noise"] if self.known else facts["tau_factor"] * learnt["tau"]


def known_variances(bags: BagTable, tau: Any) -> np.ndarray:
    """The known `tau` of each bag: a number, an array in label order, or a Series that holds all labels."""
    if np.ndim(tau) == 0:
        return np.full(len(bags), float(tau))
    if hasattr(tau, "iloc") and tau.index.is_unique and set(bags.labels) <= set(tau.index):
        tau = tau.loc[list(bags.labels)].to_numpy()
    elif not hasattr(tau, "iloc") and np.shape(tau) != (len(bags),):
        raise ValueError(
            f"`tau` must hold one number per bag, {len(bags)} in all; got shape {np.shape(tau)}. Give a Series by"
            " label, which suits some of the bags too, as where outputs are missing."
        )
    return bags.align(tau, "tau")
