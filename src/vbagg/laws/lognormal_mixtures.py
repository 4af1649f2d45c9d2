"""Predictive laws given a log-normal bag total: Poisson and exponential outputs (MATH section 9)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from .base import Array, Law
from .compound import NegativeBinomialMixture
from .compound_rules import LOG_NOTHING, count_log_mass, count_tail, over_rows
from .gaussian import LogNormal, log_moments, require_log_normal
from .numerics import first_reaching


class PoissonLogNormal(NegativeBinomialMixture):
    """Poisson count whose rate is ``exp(f)``, f ~ N(log_mean, log_std^2)."""

    def __init__(self, log_mean: npt.ArrayLike, log_std: npt.ArrayLike) -> None:
        super().__init__(LogNormal(log_mean, log_std), dispersion=0.0)

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> PoissonLogNormal:
        """Count whose rate is the log-normal with the given mean and variance."""
        return cls(*log_moments(mean, variance))


class ExponentialLogNormal(Law):
    """Exponential output whose mean is ``exp(f)``, f ~ N(log_mean, log_std^2).

    An exponential of mean T exceeds y exactly when a Poisson process of rate 1/T has no event before y:
    cdf and density are those of a Poisson log-normal at the counts 0 and 1.
    """

    def __init__(self, log_mean: npt.ArrayLike, log_std: npt.ArrayLike) -> None:
        log_mean, self.log_std = self._rows(log_mean=log_mean, log_std=log_std)
        require_log_normal(log_mean, self.log_std)
        self.log_mean = np.maximum(log_mean, LOG_NOTHING)
        self._total = LogNormal(self.log_mean, self.log_std)

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> ExponentialLogNormal:
        """Output whose mean is the log-normal with the given mean and variance."""
        return cls(*log_moments(mean, variance))

    def _mean(self) -> Array:
        return self._total.mean

    def _std(self) -> Array:
        # E y^2 = 2 E T^2
        return np.hypot(self._total.mean, np.sqrt(2) * self._total.std)

    def _tail(self, x: Array, upper: bool) -> Array:
        inside = (x > 0) & (x < np.inf)
        log_ratio = np.log(np.where(inside, x, 1.0)) - self.log_mean
        probability = over_rows(count_tail, 0.0, log_ratio, self.log_std, 0.0, np.inf, upper=not upper)
        return np.where(inside, probability, np.where((x > 0) == upper, 0.0, 1.0))

    def _log_prob(self, y: Array) -> Array:
        log_y = np.log(np.where(y > 0, y, 1.0))
        log_ratio = log_y - self.log_mean
        positive = over_rows(count_log_mass, 1.0, log_ratio, self.log_std, 0.0, np.inf) - log_y
        # the density at 0 is E 1/T
        return np.select([y > 0, y == 0], [positive, 0.5 * self.log_std**2 - self.log_mean], -np.inf)

    def _quantile(self, q: float) -> Array:
        """Root in log y, bracketed by giving half of the tail to T and half to the exponential."""
        ends = [
            self.log_mean + self.log_std * ndtri(level) + np.log(-np.log1p(-level))
            for level in (0.5 * q, 0.5 * (1 + q))
        ]
        return np.exp(first_reaching(lambda log_y, rows: self[rows].cdf(np.exp(log_y)), q, *ends))

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        return self._total.sample(n, rng) * rng.standard_exponential((n, len(self)))
