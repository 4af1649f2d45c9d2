"""Predictive laws given a log-normal bag total: Poisson and exponential outputs (MATH section 6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, wrightomega

from .base import Array, Law
from .counts import MixedPoisson
from .gaussian import LogNormal, log_moments, require_log_normal
from .numerics import GAUSSIAN_REACH, Trapezoid, first_reaching, reach
from .special import LOG_2PI, gamma_tail, poisson_log_mass

_LOG_NOTHING = -700.0  # a total of 0 is treated as exp(-700)


class PoissonLogNormal(MixedPoisson):
    """Poisson count whose rate is ``exp(f)``, f ~ N(log_mean, log_std^2)."""

    def __init__(self, log_mean: npt.ArrayLike, log_std: npt.ArrayLike) -> None:
        log_mean, self.log_std = self._rows(log_mean=log_mean, log_std=log_std)
        require_log_normal(log_mean, self.log_std)
        self.log_mean = np.maximum(log_mean, _LOG_NOTHING)
        self._rate = LogNormal(self.log_mean, self.log_std)

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> PoissonLogNormal:
        """Count whose rate is the log-normal with the given mean and variance."""
        return cls(*log_moments(mean, variance))

    def _log_prob(self, y: Array) -> Array:
        return _log_mass(y, self.log_mean, self.log_std)

    def _count_tail(self, k: Array, upper: bool) -> Array:
        return _count_tail(k, self.log_mean, self.log_std, upper)


class ExponentialLogNormal(Law):
    """Exponential output whose mean is ``exp(f)``, f ~ N(log_mean, log_std^2).

    An exponential of mean T exceeds y exactly when a Poisson process of rate 1/T has no event before y:
    cdf and density are those of a Poisson log-normal at the counts 0 and 1.
    """

    def __init__(self, log_mean: npt.ArrayLike, log_std: npt.ArrayLike) -> None:
        log_mean, self.log_std = self._rows(log_mean=log_mean, log_std=log_std)
        require_log_normal(log_mean, self.log_std)
        self.log_mean = np.maximum(log_mean, _LOG_NOTHING)
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
        with np.errstate(divide="ignore"):
            log_x = np.log(np.maximum(x, 0.0))
        probability = _count_tail(np.zeros(()), log_x - self.log_mean, self.log_std, not upper)
        return np.where(x < 0, float(upper), probability)

    def _log_prob(self, y: Array) -> Array:
        log_y = np.log(np.where(y > 0, y, 1.0))
        positive = _log_mass(np.ones(()), log_y - self.log_mean, self.log_std) - log_y
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


def _log_mass(y: Array, log_mean: Array, log_std: Array) -> Array:
    """Log of the integral of N(z | 0, 1) Poisson(y | exp(log_mean + log_std z)) over z.

    The trapezoid rule is centred on the mode, where with rate r: z = log_std (y - r). The log integrand then
    falls by t^2 / 2 + r (exp(log_std t) - 1 - log_std t) at distance t.
    """
    y, log_mean, log_std = np.broadcast_arrays(y, log_mean, log_std)
    count = np.maximum(y, 0.0)
    z, rate = _mode(count, log_mean, log_std)

    def drop(t: Array) -> Array:
        with np.errstate(over="ignore"):
            return 0.5 * t**2 + rate * (np.expm1(log_std * t) - log_std * t)

    with np.errstate(divide="ignore", over="ignore"):
        outer = np.minimum(GAUSSIAN_REACH, reach(rate) / log_std)
    peak = poisson_log_mass(count, rate) - 0.5 * z**2 - 0.5 * LOG_2PI
    return np.where(y < 0, -np.inf, peak + Trapezoid(drop, outer).log_integral())


def _mode(y: Array, log_mean: Array, log_std: Array) -> tuple[Array, Array]:
    """Mode z of the integrand and the rate there, from Wright's omega: w + log w = const."""
    variance = log_std**2
    with np.errstate(divide="ignore", invalid="ignore"):
        constant = log_mean + variance * y
        w = np.where(variance > 0, wrightomega(constant + np.log(variance)), 0.0)
        rate = np.where(w > 1, w / variance, np.exp(constant - w))
        z = np.where(variance * y > 1, (np.log(rate) - log_mean) / log_std, log_std * (y - rate))
    return z, rate


def _count_tail(k: Array, log_mean: Array, log_std: Array, upper: bool) -> Array:
    """P(count > k) if ``upper`` else P(count <= k), which is P(rate < G) with G ~ Gamma(k + 1).

    Integrated over the narrower of log rate and log G.
    """
    shape = np.broadcast_shapes(k.shape, log_mean.shape)
    k, log_mean, log_std = (np.broadcast_to(values, shape) for values in (k, log_mean, log_std))
    probability = np.empty(shape)
    over_rate = log_std**2 * (k + 1) < 1
    for rows, integrate in ((over_rate, _count_tail_over_rate), (~over_rate, _count_tail_over_gamma)):
        probability[rows] = integrate(k[rows], log_mean[rows], log_std[rows], upper)
    return probability


def _count_tail_over_rate(k: Array, log_mean: Array, log_std: Array, upper: bool) -> Array:
    rule = Trapezoid(lambda z: 0.5 * z**2, np.full(k.shape, GAUSSIAN_REACH), nodes=48)
    return rule.expectation(lambda z: gamma_tail(k + 1, np.exp(log_mean + log_std * z), not upper))


def _count_tail_over_gamma(k: Array, log_mean: Array, log_std: Array, upper: bool) -> Array:
    sign = -1.0 if upper else 1.0
    shape = k + 1
    centre = np.log(shape) - log_mean
    rule = Trapezoid(lambda u: shape * (np.expm1(u) - u), reach(shape))
    return rule.expectation(lambda u: ndtr(sign * (centre + u) / log_std))
