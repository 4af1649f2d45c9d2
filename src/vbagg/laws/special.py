"""Log densities and tail probabilities that keep their digits for extreme parameters."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincc, gammainc, gammaincc, gammaincinv, gammaln, ndtr, ndtri

from .base import Array

LOG_2PI = float(np.log(2 * np.pi))
_LARGE_SHAPE = 3e4


def standardise(x: Array, mean: Array, std: Array) -> Array:
    """Return (x - mean) / std; -inf or inf where std is 0, so that a normal cdf becomes a step."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(std > 0, (x - mean) / std, np.where(x < mean, -np.inf, np.inf))


def normal_log_density(x: Array, mean: Array, std: Array) -> Array:
    """Log N(x | mean, std^2); inf at a point mass, -inf elsewhere when std is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        smooth = -0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * LOG_2PI
    return np.where(std > 0, smooth, point_log_density(x, mean))


def point_log_density(x: Array, place: Array) -> Array:
    """Log density of a point mass at ``place``."""
    return np.where(x == place, np.inf, -np.inf)


def stirling_remainder(x: Array) -> Array:
    """Return log Gamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2] without cancellation for large x."""
    large = np.maximum(x, 16.0)
    inverse_square = large**-2.0
    series = np.full_like(large, 1 / 1680.0)
    for coefficient in (1 / 1260.0, 1 / 360.0, 1 / 12.0):
        series = coefficient - inverse_square * series
    small = np.clip(x, 1e-300, 16.0)
    direct = gammaln(small) - (small - 0.5) * np.log(small) + small - 0.5 * LOG_2PI
    return np.where(x > 16.0, series / large, direct)


def log_deficit(difference: Array, top: Array, bottom: Array) -> Array:
    """Return log r - (r - 1) <= 0, r = top / bottom, accurate near r = 1 given difference = top - bottom."""
    excess = difference / bottom
    near = np.abs(excess) < 0.5
    with np.errstate(divide="ignore"):
        far = np.log(top) - np.log(bottom)
    return np.where(near, np.log1p(np.where(near, excess, 0.0)), far) - excess


def poisson_log_mass(y: Array, rate: Array) -> Array:
    """Log Poisson mass y log(rate) - rate - log y!, for real y >= 0, to 1e-12 also at counts of 1e10."""
    y, rate = np.broadcast_arrays(y, rate)
    positive = np.where(y > 0, y, 1.0)
    # y log(rate / y) - rate + y, which vanishes at the peak
    deviance = positive * log_deficit(rate - positive, rate, positive)
    smooth = deviance - 0.5 * (LOG_2PI + np.log(positive)) - stirling_remainder(positive)
    return np.where(y > 0, smooth, np.where(y == 0, -rate, -np.inf))


def negative_binomial_log_mass(y: Array, mean: Array, size: Array) -> Array:
    """Log mass of the Poisson with a gamma rate (variance mean + mean^2 / size), for real y >= 0.

    Saddle-point form: no difference of large numbers, so a huge ``size`` tends to the Poisson.
    """
    y, mean, size = np.broadcast_arrays(y, mean, np.minimum(size, 1e100))
    positive = np.where(y > 0, y, 1.0)
    total = size + positive
    shrink = 1 / (1 + mean / size)
    fitted = mean * (1 + positive / size) * shrink
    deviance = size * log_deficit(positive - mean, total, size + mean)
    deviance = deviance + positive * log_deficit((mean - positive) * shrink, fitted, positive)
    empty = -size * np.log1p(mean / size)
    remainder = stirling_remainder(total) - stirling_remainder(size) - stirling_remainder(positive)
    smooth = deviance + remainder - 0.5 * (LOG_2PI + np.log(positive) + np.log1p(positive / size))
    return np.where(y > 0, smooth, np.where(y == 0, empty, -np.inf))


def negative_binomial_tail(k: Array, mean: Array, size: Array, upper: bool) -> Array:
    """P(count > k) if ``upper`` else P(count <= k), for whole k >= 0; variance mean + mean^2 / size."""
    k, mean, size = np.broadcast_arrays(k, mean, size)
    tail = np.empty(k.shape)
    poisson = size > 1e12 * (k + 1)
    tail[poisson] = gamma_tail(k[poisson] + 1, mean[poisson], not upper)
    # of p and 1 - p the smaller one, which keeps its digits
    for chosen, swap in ((~poisson & (mean <= size), False), (~poisson & (mean > size), True)):
        counts, sizes, means = k[chosen] + 1, size[chosen], mean[chosen]
        if swap:
            tail[chosen] = (betaincc if upper else betainc)(sizes, counts, sizes / (sizes + means))
        else:
            tail[chosen] = (betainc if upper else betaincc)(counts, sizes, means / (sizes + means))
    return tail


def gamma_tail(shape: Array, x: Array, upper: bool) -> Array:
    """Regularised incomplete gamma function: P(G > x) if ``upper`` else P(G <= x), G ~ Gamma(shape).

    Temme's uniform expansion for a large shape, whose lower tail SciPy's series truncates.
    """
    shape, x = np.broadcast_arrays(shape, x)
    large = shape > _LARGE_SHAPE
    probability = (gammaincc if upper else gammainc)(np.where(large, 1.0, shape), np.where(large, 1.0, x))
    if large.any():
        probability[large] = _large_gamma_tail(shape[large], x[large], upper)
    return probability


def _large_gamma_tail(shape: Array, x: Array, upper: bool) -> Array:
    x = np.clip(x, 0.5 * shape, 2.0 * shape)  # beyond, the tail has underflowed
    eta = np.sign(x - shape) * np.sqrt(-2 * log_deficit(x - shape, x, shape))
    score = eta * np.sqrt(shape)
    series = -1 / 3 + eta * (1 / 12 + eta * (-2 / 135 + eta * (1 / 864 + eta / 2835))) - 1 / (540 * shape)
    correction = np.exp(-0.5 * (score**2 + LOG_2PI)) * series / np.sqrt(shape)
    return ndtr(-score) + correction if upper else ndtr(score) - correction


def gamma_quantile(shape: Array, q: float) -> Array:
    """Quantile of Gamma(shape); for a large shape by Cornish-Fisher and one Newton step."""
    large = shape > _LARGE_SHAPE
    quantile = gammaincinv(np.where(large, 1.0, shape), q)
    quantile[large] = _large_gamma_quantile(shape[large], q)
    return quantile


def _large_gamma_quantile(shape: Array, q: float) -> Array:
    z, root = ndtri(q), np.sqrt(shape)
    score = z + (z**2 - 1) / (3 * root) + (z**3 - 7 * z) / (36 * shape)
    x = shape + root * score
    error = gamma_tail(shape, x, upper=False) - q if q < 0.5 else (1 - q) - gamma_tail(shape, x, upper=True)
    log_density = shape * log_deficit(x - shape, x, shape) + 0.5 * (np.log(shape) - LOG_2PI) - np.log(x)
    return x - error * np.exp(-log_density)
