"""Shared numerics of the laws: a trapezoid rule fitted to each row and a bracketing root finder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from .base import CACHED, Array

_TINY = float(np.finfo(float).tiny)
_DEPTH = 36.0  # integrands are followed down to exp(-36) of their peak
GAUSSIAN_REACH = float(np.sqrt(2 * _DEPTH))


def reach(curvature: Array) -> Array:
    """Distance from the peak within which a log-concave integrand has fallen by ``_DEPTH``.

    For log densities with |third derivative| <= second derivative (log-gamma, logit-beta), whose drop at
    distance u is at least curvature * (exp(-u) - 1 + u) >= curvature * u^2 / (2 + u).
    """
    ratio = _DEPTH / curvature
    return 0.5 * (ratio + np.sqrt(ratio) * np.sqrt(ratio + 8))


def ends(drop: Callable[[Array], Array], outer: Array) -> tuple[Array, Array]:
    """Where exp(-drop) is over on the left and on the right of 0, tightened from -outer and outer by bisection."""

    def end(outer: Array) -> Array:
        inner = np.zeros_like(outer)
        for _ in range(8):
            middle = 0.5 * (inner + outer)
            deep = drop(middle) > _DEPTH
            inner, outer = np.where(deep, inner, middle), np.where(deep, middle, outer)
        return outer

    return end(-outer), end(outer)


def node_groups(steps: Array) -> Iterator[tuple[npt.NDArray[np.intp], int]]:
    """Rows that need about the same number of steps, with that number, as many as stay in cache."""
    half_octaves = np.ceil(2 * np.log2(np.maximum(steps, 16.0))).astype(np.intp)
    for half_octave in np.unique(half_octaves):
        rows = np.flatnonzero(half_octaves == half_octave)
        nodes = int(np.ceil(2 ** (half_octave / 2)))
        block = max(1, CACHED // nodes)
        for start in range(0, len(rows), block):
            yield rows[start : start + block], nodes


class Trapezoid:
    """Trapezoid rule for exp(-drop(u)), drop convex with drop(0) = 0, on nodes fitted to each row.

    For these analytic, rapidly falling integrands the rule converges exponentially. ``outer`` is a distance
    at which drop surely exceeds ``_DEPTH`` on both sides; the ends are then tightened by bisection.
    """

    def __init__(self, drop: Callable[[Array], Array], outer: Array, nodes: int = 128) -> None:
        self.drop = drop
        self.nodes = nodes
        self.left, right = ends(drop, outer)
        self.step = (right - self.left) / (nodes - 1)

    def log_integral(self) -> Array:
        """Log of the integral of exp(-drop)."""
        total = np.zeros_like(self.step)
        for u in self._node_blocks():
            total += np.exp(-self.drop(u)).sum(axis=0)
        return np.log(total) + np.log(self.step)

    def expectation(self, function: Callable[[Array], Array]) -> Array:
        """Mean of ``function(u)`` under the density proportional to exp(-drop)."""
        weighted, total = np.zeros_like(self.step), np.zeros_like(self.step)
        for u in self._node_blocks():
            weight = np.exp(-self.drop(u))
            weighted += (weight * function(u)).sum(axis=0)
            total += weight.sum(axis=0)
        return weighted / total

    def _node_blocks(self) -> Iterator[Array]:
        """Nodes along a new first axis, as many at a time as stay in cache."""
        block = max(1, CACHED // max(1, self.step.size))
        for start in range(0, self.nodes, block):
            k = np.arange(start, min(start + block, self.nodes), dtype=np.float64)
            yield self.left + np.multiply.outer(k, self.step)


def first_reaching(
    cdf: Callable[[Array, npt.NDArray[np.intp]], Array],
    q: float,
    lower: Array,
    upper: Array,
    *,
    whole: bool = False,
) -> Array:
    """Smallest x in [lower, upper] with cdf(x, rows) >= q, by Chandrupatla's method on the unfinished rows.

    Inverse quadratic interpolation where it is safe, bisection otherwise; no derivative, jumps allowed.
    With ``whole`` the cdf is that of an integer law and the answer is exact, else relative to 1e-11.
    """
    absolute, relative = (0.49, 4e-16) if whole else (_TINY, 5e-12)

    def residual(x: Array, rows: npt.NDArray[np.intp]) -> Array:
        """Difference of normal scores, nearly linear in x, with the sign of cdf - q."""
        probability = cdf(x, rows)
        score = np.clip(ndtri(probability), -40.0, 40.0) - ndtri(q)
        return np.where(probability >= q, np.maximum(score, 0.0), np.minimum(score, -_TINY))

    f_lower = residual(lower, np.arange(len(lower)))
    result = np.where(f_lower >= 0, lower, upper)
    rows = np.flatnonzero(f_lower < 0)
    a, b = lower[rows], upper[rows]  # a: newest point, b: other end of the bracket, c: the point dropped last
    f_a, f_b = f_lower[rows], np.maximum(residual(b, rows), 0.0)
    # normal scores of counts are nearly linear in log(1 + x)
    fraction = _log_fraction(a, b, np.clip(f_a / (f_a - f_b), 0.02, 0.98)) if whole else np.full(len(rows), 0.5)
    for _ in range(200):
        x = a + fraction * (b - a)
        f_x = residual(x, rows)
        same = (f_x >= 0) == (f_a >= 0)
        c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
        b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
        a, f_a = x, f_x
        result[rows] = np.where(f_a >= 0, a, b)
        tolerance = absolute + relative * np.minimum(np.abs(a), np.abs(b))
        open_ = np.abs(b - a) > 2 * tolerance
        if not open_.any():
            break
        rows = rows[open_]
        a, b, c, f_a, f_b, f_c, tolerance = (v[open_] for v in (a, b, c, f_a, f_b, f_c, tolerance))
        middle = _log_fraction(a, b, 0.5) if whole else np.full(len(rows), 0.5)
        fraction = _next_fraction(a, b, c, f_a, f_b, f_c, middle, tolerance)
    return np.floor(result) if whole else result


def _log_fraction(a: Array, b: Array, share: Array | float) -> Array:
    """Fraction of the way from a to b at which this share of the way is covered in log(1 + x)."""
    ratio = np.log1p(b) - np.log1p(a)
    far = np.abs(ratio) > 1e-3
    ratio = np.where(far, ratio, 1.0)
    return np.where(far, np.expm1(share * ratio) / np.expm1(ratio), share)


def _next_fraction(
    a: Array, b: Array, c: Array, f_a: Array, f_b: Array, f_c: Array, middle: Array, tolerance: Array
) -> Array:
    """Where to look next, as a fraction of the way from a to b: interpolated, or ``middle``."""
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        interpolated = f_a / (f_b - f_a) * f_c / (f_b - f_c)
        interpolated = interpolated + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
    smallest = tolerance / np.abs(b - a)
    return np.clip(np.where(safe & np.isfinite(interpolated), interpolated, middle), smallest, 1 - smallest)
