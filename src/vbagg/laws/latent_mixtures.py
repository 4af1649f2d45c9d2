"""Finite mixtures of Gaussians and of their absolute values: the scale on which rates of averaged models lie.

A rate that increases with `f` has the quantile of `f`, mapped; that of the square link the quantile of `|f|`. Written
for `Arrays`: laws use it on the host, compiled predictions inside (`row_rates.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import HOST, Arrays
from .base import CACHED, Array, Law

FAR = 40.0
"""Standard deviations beyond which a normal density is zero."""
CLOSE, EXACT, ROUNDING = 1e-7, 1e-13, 2 * float(np.finfo(float).eps)
"""Length of a last Newton step, whose error is of the order of its square, and of a last bisection, both in standard
deviations; and what ends of a bracket may be rounded by."""
MOST_STEPS = 200
TINY = float(np.finfo(float).tiny)
CENTRE_LEAST, CENTRE_MOST = 1.2533, 1.36
"""For `p <= 1/2` the central interval of a standard normal with probability `p` reaches to between these times `p`."""


class OfGaussian(Law):
    """Law of a function of f ~ N(location, spread^2) that increases with f, or where it is `folded` with |f|."""

    location: Array
    spread: Array
    folded: bool = False

    def _value(self, f: Array) -> Array:
        """Apply the function."""
        raise NotImplementedError

    def same_function(self, other: Law) -> bool:
        """Whether another law has the same function."""
        return type(other) is type(self)


def shared_quantile(laws: Sequence[OfGaussian], weights: Array, q: float) -> Array:
    """Quantile of each row of a mixture of laws of the same function, some rows at a time."""
    folded, values = laws[0].folded, np.empty(len(laws[0]))
    size = max(1, CACHED // len(laws))
    for start in range(0, len(values), size):
        rows = slice(start, start + size)
        location, spread = (np.stack([getattr(law, name)[rows] for law in laws]) for name in ("location", "spread"))
        values[rows] = mixed_quantile(HOST, location, spread, weights, q, folded)
    return laws[0]._value(values)


def mixed_tail(arrays: Arrays, location: Any, spread: Any, weight: Any, x: Any, upper: Any, folded: bool) -> Any:
    """P(f > x) (n) where `upper`, else P(f <= x), `f` a mixture of `N(location, spread^2)` (k, n) with weights (k).

    With `folded` of `|f|`.
    """
    side = arrays.np.where(upper, -1.0, 1.0)
    return _tail(arrays, location, spread, weight, side * x, side, folded)[0]


def mixed_quantile(arrays: Arrays, location: Any, spread: Any, weight: Any, level: Any, folded: bool) -> Any:
    """Quantile (n) at one level of the mixture of `N(location, spread^2)` (k, n) with weights (k).

    With `folded` that of its absolute value. Newton's method for the normal score of the smaller tail, which is nearly
    linear, within a bracket that bisection shrinks where steps do not. A spread of zero is a point mass.
    """
    xp = arrays.np
    location = xp.abs(location) if folded else location
    side = xp.where(level > 0.5, -1.0, 1.0)
    p = xp.where(level > 0.5, 1 - level, level)
    score = arrays.ndtri(p)
    low, high = _bracket(arrays, location, spread, p, score, side, folded)
    smallest = xp.min(xp.where(spread > 0, spread, xp.inf), axis=0)
    smallest = xp.where(xp.isfinite(smallest), smallest, 0.0)
    x = _gaussian_guess(xp, side * location, spread, weight, score)
    x = xp.where((x > low) & (x < high), x, 0.5 * (low + high))
    width = high - low

    def unfinished(state: tuple[Any, ...]) -> Any:
        *_, open_, count = state
        return xp.any(open_) & (count < MOST_STEPS)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, low, high, last, before, open_, count = state
        tail, density = _tail(arrays, location, spread, weight, x, side, folded)
        reached = tail >= p
        low, high = xp.where(open_ & ~reached, x, low), xp.where(open_ & reached, x, high)
        own = arrays.ndtri(xp.clip(tail, TINY, 1 - ROUNDING))
        slope = density * xp.exp(0.5 * own * own) * np.sqrt(2 * np.pi)
        newton = x + (score - own) / xp.where(slope > 0, slope, TINY)
        inside = (newton >= low) & (newton <= high) & (xp.abs(newton - x) <= 0.5 * before)
        following = xp.where(inside, newton, 0.5 * (low + high))
        moved = xp.abs(following - x)
        unit = xp.minimum(smallest, xp.abs(following)) if folded else smallest
        rounding = ROUNDING * xp.maximum(xp.abs(low), xp.abs(high)) + TINY
        done = moved <= xp.where(inside, CLOSE, EXACT) * unit + rounding
        return (
            xp.where(open_, following, x),
            low,
            high,
            xp.where(open_, moved, last),
            xp.where(open_, last, before),
            open_ & ~done,
            count + 1,
        )

    x, *_ = arrays.repeat(unfinished, step, (x, low, high, width, width, width > 0, 0))
    return side * x


def _tail(arrays: Arrays, location: Any, spread: Any, weight: Any, x: Any, side: Any, folded: bool) -> tuple[Any, Any]:
    """Probability of the tail up to `x` and its slope: the lower tail, or with `side` -1 the upper one, of `-x`."""
    xp = arrays.np
    certain = ~(spread > 0)
    sd = xp.where(certain, 1.0, spread)
    weight = xp.reshape(weight, (-1, 1))

    def standard(distance: Any) -> Any:
        step = xp.where((distance < 0) | ((distance == 0) & (side < 0)), -FAR, FAR)
        return xp.where(certain, step, xp.clip(distance / sd, -FAR, FAR))

    def density(z: Any) -> Any:
        return xp.where(certain, 0.0, xp.exp(-0.5 * z * z) / (np.sqrt(2 * np.pi) * sd))

    z = standard(x - side * location)
    tail, slope = arrays.ndtr(z), density(z)
    if folded:
        other = standard(-side * x - location)
        tail = tail - side * arrays.ndtr(other)
        # a difference of like numbers: by its series in u
        u, a = x / sd, xp.minimum(location / sd, FAR)
        u2, a2 = u * u, a * a
        series = 1 + u2 * ((a2 - 1) / 6 + u2 * (a2 * (a2 - 6) + 3) / 120)
        near = (side > 0) & ~certain & (xp.abs(u) < 0.01 / (1 + a))
        tail = xp.where(near, 2 * u * np.sqrt(0.5 / np.pi) * xp.exp(-0.5 * a2) * series, tail)
        slope = slope + density(other)
    return xp.sum(weight * tail, axis=0), xp.sum(weight * slope, axis=0)


def _bracket(
    arrays: Arrays, location: Any, spread: Any, p: Any, score: Any, side: Any, folded: bool
) -> tuple[Any, Any]:
    """Ends between which the quantile of the mixture lies, since those of its components do."""
    xp = arrays.np
    least = most = side * location + spread * score
    if folded:
        # c(p) the reach of a central interval: max(a + s z, s c) <= |f| <= a + s c
        reach = -arrays.ndtri(0.5 * p)
        below, above = (xp.where(side > 0, times * p, reach) for times in (CENTRE_LEAST, CENTRE_MOST))
        lower = xp.maximum(location + side * spread * score, spread * below)
        upper = location + spread * above
        least, most = (xp.where(side > 0, one, -other) for one, other in ((lower, upper), (upper, lower)))
    low, high = xp.min(least, axis=0), xp.max(most, axis=0)
    slack = 2 * ROUNDING * xp.maximum(xp.abs(low), xp.abs(high)) * xp.where(high > low, 1.0, 0.0)
    low, high = low - slack, high + slack
    return (xp.where(side > 0, xp.maximum(low, 0.0), low), high) if folded else (low, high)


def _gaussian_guess(xp: Any, location: Any, spread: Any, weight: Any, score: Any) -> Any:
    """Quantile of the Gaussian with the moments of the mixture."""
    weight = xp.reshape(weight, (-1, 1))
    mean = xp.sum(weight * location, axis=0)
    return mean + score * xp.sqrt(xp.sum(weight * (spread**2 + (location - mean) ** 2), axis=0))
