"""Laws of a monotone function of a Gaussian: identity, exponential and logistic link (MATH section 9)."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, logit, ndtr, ndtri

from .arrays import HOST, Arrays
from .base import Array, Law, moments, require, require_finite, require_positive, require_spread, row_chunks
from .latent_mixtures import OfGaussian
from .special import normal_log_density, standardise

NARROW, STEP = 1.5, 0.75
"""Spread of log odds from which their moments take a trapezoid rule, and its step."""


class MonotoneGaussian(OfGaussian):
    """Law of an increasing function of f ~ N(location, spread^2)."""

    _lowest = -np.inf

    @abstractmethod
    def _latent(self, x: Array) -> Array:
        """Invert it; -inf below and inf above its range."""

    @abstractmethod
    def _log_slope(self, x: Array) -> Array:
        """Log derivative of the inverse."""

    def _tail(self, x: Array, upper: bool) -> Array:
        score = standardise(self._latent(x), self.location, self.spread)
        return np.where(x < self._lowest, float(upper), ndtr(-score if upper else score))

    def _log_prob(self, y: Array) -> Array:
        f = self._latent(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_density = normal_log_density(f, self.location, self.spread) + self._log_slope(y)
        return np.where(np.isinf(f), -np.inf, log_density)

    def _quantile(self, q: float) -> Array:
        return self._value(self.location + self.spread * ndtri(q))

    def at_scores(self, z: npt.ArrayLike) -> Array:  # noqa: D102
        return self._value(self.location + self.spread * np.asarray(z))

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.at_scores(rng.standard_normal((n, len(self))))


class Normal(MonotoneGaussian):
    """``scale`` times a Gaussian with the given mean and standard deviation."""

    def __init__(self, mean: npt.ArrayLike, std: npt.ArrayLike, scale: npt.ArrayLike = 1.0) -> None:
        location, spread, scale = self._rows(mean=mean, std=std, scale=scale)
        require_finite("mean", location)
        require_spread("std", spread)
        require_positive("scale", scale)
        self.location, self.spread = scale * location, scale * spread

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> Normal:
        """Law with the given mean and variance."""
        mean, variance = moments(mean, variance)
        return cls(mean, np.sqrt(variance))

    def _mean(self) -> Array:
        return self.location

    def _std(self) -> Array:
        return self.spread

    def _value(self, f: Array) -> Array:
        return f

    def _latent(self, x: Array) -> Array:
        return x

    def _log_slope(self, x: Array) -> Array:
        return np.zeros_like(x)


class LogNormal(MonotoneGaussian):
    """``scale * exp(f)``, f ~ N(log_mean, log_std^2); ``log_mean = -inf`` is a point mass at 0."""

    _lowest = 0.0

    def __init__(self, log_mean: npt.ArrayLike, log_std: npt.ArrayLike, scale: npt.ArrayLike = 1.0) -> None:
        location, spread, scale = self._rows(log_mean=log_mean, log_std=log_std, scale=scale)
        require_log_normal(location, spread)
        require_positive("scale", scale)
        self.location, self.spread = location + np.log(scale), spread

    @classmethod
    def from_moments(cls, mean: npt.ArrayLike, variance: npt.ArrayLike) -> LogNormal:
        """Law whose value has the given mean and variance."""
        return cls(*log_moments(mean, variance))

    @property
    def log_mean(self) -> Array:
        """Mean of the logarithm."""
        return self.location

    @property
    def log_std(self) -> Array:
        """Standard deviation of the logarithm."""
        return self.spread

    def _mean(self) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(self.location + 0.5 * self.spread**2)

    def _std(self) -> Array:
        with np.errstate(over="ignore"):
            return self.mean * np.sqrt(np.expm1(self.spread**2))

    def _value(self, f: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(f)

    def _latent(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(x, 0.0))

    def _log_slope(self, x: Array) -> Array:
        return -self._latent(x)


class LogitNormal(MonotoneGaussian):
    """``scale * sigmoid(f)``, f ~ N(mean, std^2): a probability, times ``scale``."""

    _lowest = 0.0

    def __init__(self, mean: npt.ArrayLike, std: npt.ArrayLike, scale: npt.ArrayLike = 1.0) -> None:
        self.location, self.spread, self.scale = self._rows(mean=mean, std=std, scale=scale)
        require_finite("mean", self.location)
        require_spread("std", self.spread)
        require_positive("scale", self.scale)

    def _mean(self) -> Array:
        return self.scale * self._moments[0]

    def _std(self) -> Array:
        return self.scale * self._moments[1]

    @cached_property
    def _moments(self) -> Array:
        """Mean and standard deviation of sigmoid(f), shape (2, rows)."""
        moments = np.empty((2, len(self)))
        for rows in row_chunks(len(self)):
            moments[:, rows] = _sigmoid_moments(self.location[rows], self.spread[rows])
        return moments

    def _value(self, f: Array) -> Array:
        return self.scale * expit(f)

    def same_function(self, other: Law) -> bool:  # noqa: D102
        return isinstance(other, LogitNormal) and np.array_equal(self.scale, other.scale)

    def _latent(self, x: Array) -> Array:
        return logit(np.clip(x / self.scale, 0.0, 1.0))

    def _log_slope(self, x: Array) -> Array:
        f = self._latent(x)
        return -log_expit(f) - log_expit(-f) - np.log(self.scale)


def _sigmoid_moments(location: Array, spread: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of sigmoid(f), each row by the rule that it needs."""
    mean, std = np.empty_like(location), np.empty_like(location)
    narrow = spread < NARROW
    for rows, rule in ((narrow, _moments_narrow), (~narrow, _moments_wide)):
        if rows.any():
            mean[rows], std[rows] = rule(HOST, -np.abs(location[rows]), spread[rows])
    return np.where(location > 0, 1 - mean, mean), std


def sigmoid_moments(arrays: Arrays, location: Any, spread: Any) -> tuple[Any, Any]:
    """The same by both rules for all rows, as compiled functions have it."""
    xp, narrow, below = arrays.np, spread < NARROW, -arrays.np.abs(location)
    few = _moments_narrow(arrays, below, xp.where(narrow, spread, NARROW))
    many = _moments_wide(arrays, below, xp.where(narrow, NARROW, spread))
    mean, std = (xp.where(narrow, one, other) for one, other in zip(few, many, strict=True))
    return xp.where(location > 0, 1 - mean, mean), std


def _moments_narrow(arrays: Arrays, location: Array, spread: Array) -> tuple[Array, Array]:
    """By 32-point Gauss-Hermite, for means of f below 0."""
    xp, centre = arrays.np, arrays.expit(location)

    def part(node: float, weight: float) -> tuple[Array, Array]:
        # sigmoid(f) - sigmoid(location), exact also for a tiny spread
        shift = node * spread
        deviation = -xp.expm1(-shift) * (1 - centre) * arrays.expit(location + shift)
        return weight * deviation, weight * deviation**2

    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    first, second = arrays.total(part, nodes, weights / weights.sum())
    return centre + first, xp.sqrt(xp.maximum(second - first**2, 0.0))


def _moments_wide(arrays: Arrays, location: Array, spread: Array) -> tuple[Array, Array]:
    """By parts, E g(f) = integral of g'(t) P(f > t), whose integrand is smooth however wide f is."""
    xp = arrays.np

    def part(t: float, step: float) -> tuple[Array, Array]:
        slope = step * arrays.expit(t) * arrays.expit(-t)
        exceedance = arrays.ndtr((location - t) / spread)
        return slope * exceedance, 2 * arrays.expit(t) * slope * exceedance

    nodes = np.arange(-40.0, 20.0, STEP)
    first, second = arrays.total(part, nodes, np.full(len(nodes), STEP))
    return first, xp.sqrt(xp.maximum(second - first**2, 0.0))


def log_moments(mean: npt.ArrayLike, variance: npt.ArrayLike) -> tuple[Array, Array]:
    """Log mean and log standard deviation of the log-normal with the given mean and variance."""
    mean, variance = moments(mean, variance)
    require_spread("mean", mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_variance = np.where(mean > 0, np.log1p(variance / mean / mean), 0.0)
        return np.log(mean) - 0.5 * log_variance, np.sqrt(log_variance)


def require_log_normal(log_mean: Array, log_std: Array) -> None:
    """Check the parameters of a log-normal; ``log_mean = -inf`` stands for the value 0."""
    require(
        log_mean < np.inf,
        "log_mean",
        log_mean,
        "a number below infinity",
        "Drop rows with missing inputs first.",
    )
    require_spread("log_std", log_std)
