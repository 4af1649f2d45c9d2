"""Predictive law of a negative binomial count given a random bag total (MATH section 9)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .base import Array, Law, require_spread
from .compound_rules import LOG_NOTHING, count_log_mass, count_tail, over_rows
from .counts import CountLaw, poisson_draws
from .gaussian import LogNormal
from .totals import Gamma


class NegativeBinomialMixture(CountLaw):
    """Count whose mean T is random: negative binomial given T, with variance T + dispersion T^2.

    Nothing is matched but the total. For totals from 1e-3 to 1e7, relative standard deviations of T up to 3 and
    dispersions up to 10, probabilities are right to 1e-8 of their value or 1e-12, and log masses to 1e-9.

    Parameters
    ----------
    total
        Law of T, a `LogNormal` or a `Gamma`; a row without variance has a known total.
    dispersion
        Non-negative, one number or one per row; 0 is the Poisson.
    """

    def __init__(self, total: Law, dispersion: npt.ArrayLike) -> None:
        if not isinstance(total, LogNormal | Gamma):
            name = type(total).__name__
            raise TypeError(f"`total` must be a LogNormal or a Gamma law; got {name}. Match one to its two moments.")
        _, self.dispersion = self._rows(total=np.zeros(len(total)), dispersion=dispersion)
        require_spread("dispersion", self.dispersion)
        if len(self) != len(total):
            raise ValueError(f"`dispersion` must have one number per row; got {len(self)} for {len(total)} totals.")
        self._rate = total
        with np.errstate(divide="ignore"):
            size = 1 / self.dispersion
            if isinstance(total, Gamma):
                # The count is Poisson with rate T g, two gamma variables: the wider one may take the part of g
                shape = np.where(total.mean > 0, total.shape, np.inf)
                self._size = np.minimum(shape, size)
                self._scale = self._skew = np.maximum(shape, size) ** -0.5
                self._centre = np.log(total.mean)
            else:
                self._size, self._scale, self._skew = size, total.spread, np.zeros(len(total))
                self._centre = total.location
        self._centre = np.maximum(self._centre, LOG_NOTHING)

    def _mean(self) -> Array:
        return self._rate.mean

    def _std(self) -> Array:
        # Var y = E T + dispersion E T^2 + Var T
        mean, spread = self._rate.mean, self._rate.std
        effect = np.sqrt(self.dispersion) * np.hypot(mean, spread)
        return np.hypot(np.hypot(np.sqrt(mean), effect), spread)

    def _log_prob(self, y: Array) -> Array:
        possible = (y >= 0) & (y < np.inf)
        log_mass = over_rows(count_log_mass, np.where(possible, y, 0.0), *self._parameters())
        return np.where(possible, log_mass, -np.inf)

    def _count_tail(self, k: Array, upper: bool) -> Array:
        return over_rows(count_tail, k, *self._parameters(), upper=upper)

    def _parameters(self) -> tuple[Array, Array, Array, Array]:
        return self._centre, self._scale, self._skew, self._size

    def _given(self, rate: Array) -> tuple[Array, Array]:
        return rate, rate

    def _rate_range(self, low: float, high: float) -> tuple[Array, Array]:
        """Range of T g, g ~ Gamma with variance ``dispersion``, granting half of each tail to T and half to g."""
        levels = (0.5 * low, 0.5 * (1 + high))
        effect = Gamma.from_moments(1.0, self.dispersion).quantile(levels)
        lower, upper = self._rate.quantile(levels) * effect
        return lower, upper

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        effect = Gamma.from_moments(1.0, self.dispersion)
        return poisson_draws(self._rate.sample(n, rng) * effect.sample(n, rng), rng)
