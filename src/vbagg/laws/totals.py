"""Laws of a bag total or proportion matched to its mean and variance (MATH sections 4 and 9)."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, betainccinv, betaincinv, gammainccinv, gammaincinv, ndtr

from .base import Array, Law, moments, require, require_positive, require_spread
from .special import (
    LOG_2PI,
    gamma_quantile,
    gamma_tail,
    log_deficit,
    point_log_density,
    stirling_remainder,
)

_MAX_CONCENTRATION = 1e14  # beyond it a beta's width is lost in rounding
_VARIANCE_CAP = 0.999


class MatchedLaw(Law):
    """A law on (0, upper) given by its mean and a precision; infinite precision is a point mass."""

    _centre: Array
    _fixed: npt.NDArray[np.bool_]

    @abstractmethod
    def _smooth_tail(self, x: Array, upper: bool) -> Array:
        """Tail probability, ignoring point masses like the following three."""

    @abstractmethod
    def _smooth_log_prob(self, x: Array) -> Array: ...

    @abstractmethod
    def _smooth_quantile(self, q: float) -> Array: ...

    @abstractmethod
    def _smooth_scores(self, z: Array) -> Array: ...

    @abstractmethod
    def _smooth_sample(self, n: int, rng: np.random.Generator) -> Array: ...

    def _mean(self) -> Array:
        return self._centre

    def _tail(self, x: Array, upper: bool) -> Array:
        return np.where(self._fixed, (x >= self._centre) != upper, self._smooth_tail(x, upper))

    def _log_prob(self, y: Array) -> Array:
        return np.where(self._fixed, point_log_density(y, self._centre), self._smooth_log_prob(y))

    def _quantile(self, q: float) -> Array:
        return np.where(self._fixed, self._centre, self._smooth_quantile(q))

    def at_scores(self, z: npt.ArrayLike) -> Array:  # noqa: D102
        return np.where(self._fixed, self._centre, self._smooth_scores(np.asarray(z, dtype=np.float64)))

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        return np.where(self._fixed, self._centre, self._smooth_sample(n, rng))


class Gamma(MatchedLaw):
    """Gamma law with mean ``mean`` and variance ``mean^2 / shape``."""

    def __init__(self, mean: npt.ArrayLike, shape: npt.ArrayLike) -> None:
        self._centre, self.shape = self._rows(mean=mean, shape=shape)
        require_spread("mean", self._centre)
        require_positive("shape", self.shape)
        self._fixed = np.isinf(self.shape) | (self._centre == 0)
        self._shape = np.where(self._fixed, 1.0, self.shape)
        self._unit = np.where(self._fixed, 1.0, self._centre / self._shape)

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> Gamma:
        """Law with the given mean and variance."""
        return cls(mean, gamma_shape(mean, variance))

    def _std(self) -> Array:
        return self._centre / np.sqrt(self.shape)

    def _smooth_tail(self, x: Array, upper: bool) -> Array:
        return gamma_tail(self._shape, np.maximum(x, 0.0) / self._unit, upper)

    def _smooth_log_prob(self, x: Array) -> Array:
        positive = np.where(x > 0, x, 1.0)
        mean = self._shape * self._unit
        peak = 0.5 * (np.log(self._shape) - LOG_2PI) - stirling_remainder(self._shape) - np.log(positive)
        log_density = peak + self._shape * log_deficit(positive - mean, positive, mean)
        edge = np.select([self._shape < 1, self._shape == 1], [np.inf, -np.log(self._unit)], -np.inf)
        return np.where(x > 0, log_density, np.where(x == 0, edge, -np.inf))

    def _smooth_quantile(self, q: float) -> Array:
        return gamma_quantile(self._shape, q) * self._unit

    def _smooth_scores(self, z: Array) -> Array:
        # from the nearer tail, where probabilities are accurate
        lower = gammaincinv(self._shape, ndtr(np.minimum(z, 0.0)))
        return np.where(z < 0, lower, gammainccinv(self._shape, ndtr(-np.maximum(z, 0.0)))) * self._unit

    def _smooth_sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_gamma(self._shape, (n, len(self))) * self._unit


class Beta(MatchedLaw):
    """Beta law with mean ``mean`` and variance ``mean (1 - mean) / (1 + concentration)``."""

    def __init__(self, mean: npt.ArrayLike, concentration: npt.ArrayLike) -> None:
        self._centre, self.concentration = self._rows(mean=mean, concentration=concentration)
        require_proportion("mean", self._centre)
        require_positive("concentration", self.concentration)
        outcome_certain = (self._centre == 0) | (self._centre == 1)
        self._fixed = (self.concentration > _MAX_CONCENTRATION) | outcome_certain
        concentration = np.where(self._fixed, 2.0, self.concentration)
        self._alpha = np.where(self._fixed, 1.0, self._centre * concentration)
        self._beta = concentration - self._alpha

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> Beta:
        """Law with the given mean and variance, the latter capped at 0.999 mean (1 - mean)."""
        return cls(mean, beta_concentration(mean, variance))

    def _std(self) -> Array:
        return np.sqrt(self._centre * (1 - self._centre) / (1 + self.concentration))

    def _smooth_tail(self, x: Array, upper: bool) -> Array:
        return (betaincc if upper else betainc)(self._alpha, self._beta, np.clip(x, 0.0, 1.0))

    def _smooth_log_prob(self, x: Array) -> Array:
        inside = (x > 0) & (x < 1)
        p = np.where(inside, x, 0.5)
        concentration = self._alpha + self._beta
        # alpha log(p / mean) + beta log((1 - p) / (1 - mean)), whose linear parts cancel
        shift = concentration * p - self._alpha
        kernel = self._alpha * log_deficit(shift, concentration * p, self._alpha)
        kernel = kernel + self._beta * log_deficit(-shift, concentration * (1 - p), self._beta)
        remainder = [stirling_remainder(a) for a in (concentration, self._alpha, self._beta)]
        peak = 0.5 * (np.log(self._alpha) + np.log(self._beta) - np.log(concentration) - LOG_2PI)
        log_density = kernel + peak + remainder[0] - remainder[1] - remainder[2] - np.log(p) - np.log1p(-p)
        return np.where(inside, log_density, np.where((x == 0) | (x == 1), self._edge(x), -np.inf))

    def _edge(self, x: Array) -> Array:
        exponent = np.where(x == 0, self._alpha, self._beta)
        other = np.where(x == 0, self._beta, self._alpha)
        return np.select([exponent < 1, exponent == 1], [np.inf, np.log(other)], -np.inf)

    def _smooth_quantile(self, q: float) -> Array:
        return betaincinv(self._alpha, self._beta, q)

    def _smooth_scores(self, z: Array) -> Array:
        lower = betaincinv(self._alpha, self._beta, ndtr(np.minimum(z, 0.0)))
        upper = betainccinv(self._alpha, self._beta, ndtr(-np.maximum(z, 0.0)))
        return np.where(z < 0, lower, upper)

    def _smooth_sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.beta(self._alpha, self._beta, (n, len(self)))


def gamma_shape(mean: npt.ArrayLike, variance: npt.ArrayLike) -> Array:
    """Shape mean^2 / variance; infinite where the variance or the mean is 0."""
    mean, variance = moments(mean, variance)
    require_spread("mean", mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((variance > 0) & (mean > 0), mean / variance * mean, np.inf)


def beta_concentration(mean: npt.ArrayLike, variance: npt.ArrayLike) -> Array:
    """Concentration mean (1 - mean) / variance - 1, the variance capped; infinite for a point mass."""
    mean, variance = moments(mean, variance)
    require_proportion("mean", mean)
    largest = mean * (1 - mean)
    variance = np.minimum(variance, _VARIANCE_CAP * largest)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, largest / variance - 1, np.inf)


def require_proportion(name: str, values: Array) -> None:
    """Raise unless every value lies between 0 and 1."""
    require((values >= 0) & (values <= 1), name, values, "a proportion between 0 and 1")
