"""Predictive laws of counts: negative binomial and beta-binomial (MATH section 9)."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, expit

from .base import Array, Law, require, require_positive, require_spread
from .numerics import Trapezoid, first_reaching, reach
from .special import negative_binomial_log_mass, negative_binomial_tail
from .totals import Beta, Gamma, beta_concentration, gamma_shape

_SMALLEST, _LARGEST = 1e-100, 1e14  # beta parameters beyond these act as point masses


class CountLaw(Law):
    """A count given a random rate; ``log_prob`` also takes real values, through log Gamma."""

    discrete = True
    _rate: Law

    @abstractmethod
    def _count_tail(self, k: Array, upper: bool) -> Array:
        """P(value > k) if ``upper`` else P(value <= k), for finite integers k >= 0."""

    @abstractmethod
    def _given(self, rate: Array) -> tuple[Array, Array]:
        """Mean and variance of the count given its rate."""

    def _tail(self, x: Array, upper: bool) -> Array:
        k = np.broadcast_to(np.floor(x), np.broadcast_shapes(x.shape, (len(self),)))
        inside = np.isfinite(k) & (k >= 0)
        tail = self._count_tail(np.where(inside, k, 0.0), upper)
        return np.where(inside, tail, np.where((k < 0) == upper, 1.0, 0.0))

    def _rate_range(self, low: float, high: float) -> tuple[Array, Array]:
        """Rates with at most the probability ``low`` below and 1 - ``high`` above."""
        lower, upper = self._rate.quantile([low, high])
        return lower, upper

    def _quantile(self, q: float) -> Array:
        """Bracket by granting half of the tail to the rate and half to the count, then search."""
        low, high = self._rate_range(0.5 * q, 0.5 * (1 + q))
        lower_mean, variance = self._given(low)
        lower = lower_mean - _bernstein(variance, 0.5 * q)
        upper_mean, variance = self._given(high)
        upper = upper_mean + _bernstein(variance, 0.5 * (1 - q))
        lower, upper = np.floor(np.maximum(lower, 0.0)), np.ceil(upper)
        return first_reaching(self._cdf_of, q, lower, upper, whole=True)


class MixedPoisson(CountLaw):
    """Poisson count with a random rate."""

    def _mean(self) -> Array:
        return self._rate.mean

    def _std(self) -> Array:
        return np.hypot(np.sqrt(self._rate.mean), self._rate.std)

    def _given(self, rate: Array) -> tuple[Array, Array]:
        return rate, rate

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        return poisson_draws(self._rate.sample(n, rng), rng)


class NegativeBinomial(MixedPoisson):
    """Poisson count with a gamma rate: variance ``mean + mean^2 / size``; ``size = inf`` is the Poisson."""

    def __init__(self, mean: npt.ArrayLike, size: npt.ArrayLike) -> None:
        mean, self.size = self._rows(mean=mean, size=size)
        require_spread("mean", mean)
        require_positive("size", self.size)
        self._rate = Gamma(mean, self.size)

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> NegativeBinomial:
        """Count whose rate is the gamma law with the given mean and variance."""
        return cls(mean, gamma_shape(mean, variance))

    def _log_prob(self, y: Array) -> Array:
        return negative_binomial_log_mass(y, self.mean, self.size)

    def _count_tail(self, k: Array, upper: bool) -> Array:
        return negative_binomial_tail(k, self.mean, self.size, upper)


class BetaBinomial(CountLaw):
    """Binomial count of ``trials`` whose probability is Beta(alpha, beta)."""

    def __init__(self, trials: npt.ArrayLike, alpha: npt.ArrayLike, beta: npt.ArrayLike) -> None:
        self.trials, self.alpha, self.beta = self._rows(trials=trials, alpha=alpha, beta=beta)
        whole = (self.trials >= 0) & (self.trials == np.floor(self.trials)) & np.isfinite(self.trials)
        require(whole, "trials", self.trials, "a whole number >= 0")
        require_spread("alpha", self.alpha)
        require_spread("beta", self.beta)
        require_positive("alpha + beta", self.alpha + self.beta)
        self._alpha, self._beta = (np.maximum(values, _SMALLEST) for values in (self.alpha, self.beta))
        total = self.alpha + self.beta
        self._rate = Beta(self.alpha / total, total)

    @classmethod
    def from_moments(cls, trials: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike) -> BetaBinomial:
        """Count whose probability is the beta law with the given mean and (capped) variance."""
        mean = np.asarray(mean, dtype=np.float64)
        concentration = np.minimum(beta_concentration(mean, variance), _LARGEST)
        return cls(trials, mean * concentration, (1 - mean) * concentration)

    def _mean(self) -> Array:
        return self.trials * self._rate.mean

    def _given(self, rate: Array) -> tuple[Array, Array]:
        return self.trials * rate, self.trials * rate * (1 - rate)

    def _std(self) -> Array:
        # E Var + Var E, with E p (1 - p) = mean (1 - mean) - Var p
        mean, variance = self._rate.mean, self._rate.std**2
        return np.sqrt(self.trials * (mean * (1 - mean) + (self.trials - 1) * variance))

    def _log_prob(self, y: Array) -> Array:
        # For any common odds, successes and failures are negative binomial given their sum
        total = self._alpha + self._beta
        successes = negative_binomial_log_mass(y, self.trials * (self._alpha / total), self._alpha)
        failures = negative_binomial_log_mass(self.trials - y, self.trials * (self._beta / total), self._beta)
        return successes + failures - negative_binomial_log_mass(self.trials, self.trials, total)

    def _count_tail(self, k: Array, upper: bool) -> Array:
        """P(count <= k) = P(probability < V), V the (k + 1)-th smallest of ``trials`` uniforms.

        V is Beta(k + 1, trials - k). The narrower of the two laws is integrated numerically.
        """
        below_all = k < self.trials
        k, trials, alpha, beta = (
            np.broadcast_to(values, k.shape)[below_all] for values in (k, self.trials, self._alpha, self._beta)
        )
        probability, order = np.stack([alpha, beta]), np.stack([k + 1, trials - k])
        narrow = (1 / order).sum(axis=0) < (1 / probability).sum(axis=0)
        tail = np.empty(k.shape)
        tail[narrow] = _beta_exceeds(order[:, narrow], probability[:, narrow], complement=upper)
        tail[~narrow] = _beta_exceeds(probability[:, ~narrow], order[:, ~narrow], complement=not upper)
        result = np.full(below_all.shape, float(not upper))
        result[below_all] = tail
        return result

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        probability = self._rate.sample(n, rng)
        return rng.binomial(self.trials.astype(np.int64), probability).astype(np.float64)


def poisson_draws(rate: Array, rng: np.random.Generator) -> Array:
    """Draw; the noise of rates beyond the generator's integers is lost in rounding and left out."""
    drawable = np.minimum(rate, 1e18)
    return np.where(rate > drawable, rate, rng.poisson(drawable).astype(np.float64))


def _beta_exceeds(first: Array, second: Array, complement: bool) -> Array:
    """P(p > r), or P(p <= r) if ``complement``, for p ~ Beta(first), r ~ Beta(second).

    Integrated over logit p, whose density at distance u from its mode falls by
    total * (log(1 + share * (exp(u) - 1)) - share * u).
    """
    total = first.sum(axis=0)
    share = first.min(axis=0) / total
    side = np.where(first[0] > first[1], -1.0, 1.0)  # by symmetry, so that share <= 1/2

    def drop(u: Array) -> Array:
        return total * (np.log1p(share * np.expm1(side * u)) - share * side * u)

    function = betaincc if complement else betainc
    mode = np.log(first[0]) - np.log(first[1])
    rule = Trapezoid(drop, reach(first[0] / total * first[1]), nodes=96)
    return rule.expectation(lambda u: function(*second, expit(mode + u)))


def _bernstein(variance: Array, probability: float) -> Array:
    """Deviation that a Poisson or binomial count exceeds with at most this probability."""
    depth = -np.log(probability)
    return depth / 3 + np.sqrt(depth**2 / 9 + 2 * variance * depth)
