"""Integrals of negative binomial counts over a random total, the numerics behind `NegativeBinomialMixture`.

The total is T = exp(centre + scale t), where t has the log density -(exp(skew t) - 1 - skew t) / skew^2 up to a
constant. Without skew this is a log-normal; scale = skew = shape^(-1/2) is a gamma law. All arguments are
one-dimensional arrays of one length; ``size`` is 1 / dispersion, infinite for the Poisson.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, sici
from threadpoolctl import threadpool_limits

from .base import CACHED, Array
from .numerics import GAUSSIAN_REACH, ends, node_groups, reach
from .special import LOG_2PI, negative_binomial_log_mass, negative_binomial_tail, stirling_remainder

LOG_NOTHING = -700.0  # a total of 0 is treated as exp(-700)
_POISSON = 1e100  # stands for an infinite size
_STEP = 0.2  # in log T: log-gamma and logit-beta densities have features of unit width
_GAUSSIAN_STEP = 0.7  # in standard deviations
_NARROW = 0.04  # squared ratio of widths below which 16 Gauss-Hermite nodes do
_LONG_TAIL = 1.0  # exponential tails that fall more slowly are not followed
_TAPER = 36  # nodes over which a density is faded out where its tail does not matter


def over_rows(integral: Callable[..., Array], *parameters: Array | float, **options: bool) -> Array:
    """Call an integral of this module with parameters that broadcast against each other."""
    arrays = np.broadcast_arrays(*parameters)
    return integral(*(array.ravel() for array in arrays), **options).reshape(arrays[0].shape)


def total_drop(t: Array, skew: Array) -> Array:
    """Return (exp(skew t) - 1 - skew t) / skew^2, the fall of the log density of t from its peak at 0."""
    if not skew.any():
        return 0.5 * t**2
    e = skew * t
    small = np.abs(e) < 1e-3
    series = t**2 * (1 / 2 + e * (1 / 6 + e * (1 / 24 + e / 120)))
    with np.errstate(over="ignore"):
        exact = (np.expm1(e) - e) / np.where(skew > 0, skew, 1.0) ** 2
    return np.where(small, series, exact)


def total_log_peak(skew: Array) -> Array:
    """Log density of t at 0."""
    shape = 1 / np.maximum(skew, 1e-50) ** 2
    return -0.5 * LOG_2PI - stirling_remainder(shape)


def total_ends(skew: Array) -> tuple[Array, Array]:
    """Range of t that holds all but 1e-16 of its probability."""
    safe = np.maximum(skew, 1e-6)
    outer = np.where(skew > 1e-6, reach(safe**-2) / safe, GAUSSIAN_REACH)
    return ends(lambda t: total_drop(t, skew), outer)


def count_log_mass(y: Array, centre: Array, scale: Array, skew: Array, size: Array) -> Array:
    """Log of the integral over t of its density times the negative binomial mass at real y >= 0, mean T.

    By the trapezoid rule around the mode of the log-concave integrand.
    """
    size = np.minimum(size, _POISSON)
    t0, total, slope = _mode(y, centre, scale, skew, size)
    tilt = np.exp(skew * t0)
    share, side = rarer(total, size)
    shape = np.stack([tilt, skew, y + size, share, side * scale, slope])

    curvature = (1 + y / size) * total / (1 + total / size) ** 2
    with np.errstate(divide="ignore", over="ignore"):
        by_count = reach(np.maximum(curvature, 1e-200)) / scale
        by_total = np.where(skew > 1e-6, reach(tilt * np.maximum(skew, 1e-6) ** -2.0) / skew, 1.1 * GAUSSIAN_REACH)
    left, right = ends(lambda t: _integrand_drop(t, shape), np.minimum(by_count, by_total))
    integral = np.empty(y.shape)
    for rows, nodes in node_groups(np.maximum(32, (right - left) * scale / _STEP)):
        h = (right[rows] - left[rows]) / nodes
        t = left[rows] + np.multiply.outer(np.arange(nodes + 1), h)
        integral[rows] = h * np.exp(-_integrand_drop(t, shape[:, rows])).sum(axis=0)
    peak = negative_binomial_log_mass(y, total, size) + total_log_peak(skew) - total_drop(t0, skew)
    return peak + np.log(integral)


def _integrand_drop(t: Array, shape: Array) -> Array:
    """Fall of the log integrand at distance t from the mode, less the slope left there."""
    tilt, skew, weight, share, signed_scale, slope = shape
    return tilt * total_drop(t, skew) + weight * logit_drop(signed_scale * t, share) - slope * t


def _mode(y: Array, centre: Array, scale: Array, skew: Array, size: Array) -> tuple[Array, Array, Array]:
    """Mode in t by safeguarded Newton steps, the total there, and the slope that is left of the log integrand.

    The slope is scale (y - T) / (1 + T / size) - (exp(skew t) - 1) / skew.
    """
    start = np.exp(centre)
    pull = scale * (y - start) / (1 + start / size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        towards_y = np.where(y > 0, (np.log(y) - centre) / scale, -np.inf)
        towards_y = np.where(np.isnan(towards_y), 0.0, towards_y)
        lowest = np.where(skew > 0, -np.log1p(start * skew**2) / skew, pull)
    upper = np.clip(np.minimum(pull, towards_y), 0.0, None)
    lower = np.clip(np.maximum(lowest, towards_y), None, 0.0)
    lower = np.where(y > start, 0.0, lower)
    t = np.where(y > start, upper, lower)
    for _ in range(60):
        total = np.exp(centre + scale * t)
        spread = 1 + total / size
        prior = np.where(skew > 0, np.expm1(skew * t) / np.where(skew > 0, skew, 1.0), t)
        slope = scale * (y - total) / spread - prior
        curvature = scale**2 * (1 + y / size) * total / spread**2 + np.exp(skew * t)
        if np.all(np.abs(slope) <= 1e-3 * np.sqrt(curvature)):
            break
        lower, upper = np.where(slope > 0, t, lower), np.where(slope < 0, t, upper)
        newton = t + slope / curvature
        t = np.where((newton >= lower) & (newton <= upper), newton, 0.5 * (lower + upper))
    return t, total, slope


def count_tail(k: Array, centre: Array, scale: Array, skew: Array, size: Array, upper: bool) -> Array:
    """P(count > k) if ``upper`` else P(count <= k), for whole k >= 0; the latter is P(T < W).

    W / size is the ratio of Gamma(k + 1) to Gamma(size), so log W is the logit of a beta variable. The narrower
    of log T and log W is integrated numerically.
    """
    curvature = (k + 1) / (1 + (k + 1) / size)
    narrow = scale**2 * np.maximum(curvature, 1.0) < _NARROW
    # the integrand of P(T < W) falls like exp(-size x); where that is slow take 1 - P(T > W)
    complement = ~narrow & (size < _LONG_TAIL) & (not upper)
    tail = np.empty(k.shape)
    rules: dict[Callable[..., Array], npt.NDArray[np.bool_]] = {
        _tail_of_narrow_total: narrow,
        _tail_of_wide_log_normal: ~narrow & (skew == 0),
        _tail_of_wide_gamma: ~narrow & (skew > 0),
    }
    for rule, chosen in rules.items():
        for is_upper, place in ((upper, chosen & ~complement), (True, chosen & complement)):
            positions = np.flatnonzero(place)
            for start in range(0, len(positions), CACHED):
                rows = positions[start : start + CACHED]
                tail[rows] = rule(*(values[rows] for values in (k, centre, scale, skew, size)), is_upper)
    tail[complement] = 1 - tail[complement]
    return np.clip(tail, 0.0, 1.0)


def _tail_of_narrow_total(k: Array, centre: Array, scale: Array, skew: Array, size: Array, upper: bool) -> Array:
    """Tail at a central total, corrected by the density of log W around it.

    With Gauss-Hermite nodes in z, where exp(skew t / 3) = 1 - skew^2 / 9 + skew z / 3 (Wilson-Hilferty).
    """
    z, weight, integral = _hermite()
    log_root = np.log1p(np.multiply.outer(z, skew / 3) - skew**2 / 9)
    safe = np.where(skew > 0, skew, 1.0)
    t = np.where(skew > 0, 3 * log_root / safe, z[:, None])
    weight = weight[:, None] * np.exp(0.5 * z[:, None] ** 2 - total_drop(t, skew) - log_root)
    start = centre + np.where(skew > 0, scale * 3 * np.log1p(-(skew**2) / 9) / safe, 0.0)
    slope = _wait_density(k, size)(centre + scale * t) * scale * np.exp(-log_root)
    correction = ((integral.T @ (weight / weight.sum(axis=0))) * slope).sum(axis=0)
    tail = negative_binomial_tail(k, np.exp(start), size, upper)
    return tail + correction if upper else tail - correction


@cache
def _hermite() -> tuple[Array, Array, Array]:
    """Gauss-Hermite nodes, weights, and the integrals from 0 to each node of a function known at the nodes."""
    z, weight = np.polynomial.hermite_e.hermegauss(16)
    basis = np.polynomial.hermite_e.hermevander(z, 16)
    # the integral of He_m is He_{m+1} / (m + 1)
    primitive = (basis - np.polynomial.hermite_e.hermevander(np.zeros(1), 16))[:, 1:] / np.arange(1, 17)
    return z, weight, primitive @ np.linalg.inv(basis[:, :16])


def _tail_of_wide_log_normal(k: Array, centre: Array, scale: Array, skew: Array, size: Array, upper: bool) -> Array:
    """Integral over x = log W of its density times the normal tail of log T."""
    start, end, curvature = _wait_ends(k, size)
    if upper:
        end = np.minimum(end, centre + GAUSSIAN_REACH * scale)
    else:
        start = np.maximum(start, centre - GAUSSIAN_REACH * scale)
    length = np.maximum(end - start, 0.0)
    tail = np.empty(k.shape)
    for rows, nodes in node_groups(length / _step(curvature + scale**-2.0)):
        x = start[rows] + np.multiply.outer(np.arange(nodes + 1) / nodes, length[rows])
        score = (x - centre[rows]) / scale[rows]
        values = _wait_density(k[rows], size[rows])(x) * ndtr(-score if upper else score)
        tail[rows] = length[rows] / nodes * values.sum(axis=0)
    return tail


def _tail_of_wide_gamma(k: Array, centre: Array, scale: Array, skew: Array, size: Array, upper: bool) -> Array:
    """Sum over the densities of x = log T and log W on a common grid.

    The integral of the density of log W up to each node is its sinc series integrated term by term. The grid
    starts where log W has its tail and runs ``_TAPER`` nodes beyond the end of log T.
    """
    *ends_of_wait, curvature = _wait_ends(k, size)
    ends_of_total = [centre + scale * end for end in total_ends(skew)]
    near, far, sign = (0, 1, 1.0) if upper else (1, 0, -1.0)
    start, length = ends_of_wait[near], sign * (ends_of_total[far] - ends_of_wait[near])
    certain = sign * (ends_of_total[near] - ends_of_wait[far]) > 0
    length = np.where(certain, 0.0, np.maximum(length, 0.0))
    tail = np.empty(k.shape)
    with threadpool_limits(1, user_api="blas"):  # small matrices gain nothing from threads
        for rows, nodes in node_groups(length / _step(curvature + scale**-2.0)):
            h = length[rows] / nodes
            nodes += _TAPER
            x = start[rows] + sign * np.multiply.outer(np.arange(nodes), h)
            below = _cumulation(nodes) @ _wait_density(k[rows], size[rows])(x)
            log_density = total_log_peak(skew[rows]) - total_drop((x - centre[rows]) / scale[rows], skew[rows])
            tail[rows] = h**2 / scale[rows] * (below * np.exp(log_density)).sum(axis=0)
    return np.where(certain, 1.0, tail)


def _step(curvature: Array) -> Array:
    """Distance of nodes that resolves a bell of this curvature."""
    return np.minimum(_STEP, _GAUSSIAN_STEP / np.sqrt(curvature))


@cache
def _cumulation(nodes: int) -> Array:
    """Matrix that integrates a function up to each node, in units of the step, tapering its last values."""
    distance = np.subtract.outer(np.arange(nodes), np.arange(nodes))
    taper = ndtr((nodes - 0.5 * _TAPER - np.arange(nodes)) / (_TAPER / 14))
    return (0.5 + sici(np.pi * distance)[0] / np.pi) * taper


def _wait_density(k: Array, size: Array) -> Callable[[Array], Array]:
    """Density of x = log W."""
    drop, place = _wait_drop(k, size), np.log(k + 1)
    size = np.minimum(size, _POISSON)
    peak = np.log((k + 1) / (k + 1 + size) * (k + size)) + negative_binomial_log_mass(k, k + 1, size)
    return lambda x: np.exp(peak - drop(x - place))


def _wait_ends(k: Array, size: Array) -> tuple[Array, Array, Array]:
    """Range of x = log W that holds all but 1e-16 of its probability, and the curvature of its log density."""
    curvature = (k + 1) / (1 + (k + 1) / size)
    left, right = ends(_wait_drop(k, size), reach(curvature))
    return np.log(k + 1) + left, np.log(k + 1) + right, curvature


def _wait_drop(k: Array, size: Array) -> Callable[[Array], Array]:
    """Fall of the log density of log W at a distance from its peak, log(k + 1)."""
    size = np.minimum(size, _POISSON)
    share, side = rarer(k + 1, size)
    return lambda u: (k + 1 + size) * logit_drop(side * u, share)


def rarer(total: Array, size: Array) -> tuple[Array, Array]:
    """Of p = total / (total + size) and 1 - p the smaller one, and the sign of its logit's direction."""
    return np.minimum(total, size) / (total + size), np.where(total > size, -1.0, 1.0)


def logit_drop(u: Array, share: Array) -> Array:
    """Return log(1 + share (exp(u) - 1)) - share u."""
    with np.errstate(over="ignore"):
        return np.log1p(share * np.expm1(u)) - share * u
