"""Quasi-Newton search for few parameters when each evaluation takes long and is slightly noisy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vbagg.stepping import backtrack

WORTH = 1e-3
"""Share of the promised gain that a step must have."""
TYPICAL_VARIANCE = 0.25
"""Inverse curvature of directions that are not yet explored."""
LEAST_SPREAD = 1e-4
"""Of points along a direction in which they differ."""
Objective = Callable[[np.ndarray, float, float], tuple[float, np.ndarray]]
"""Value and slope at a point. If the value is below the second argument, any value below it will do, and any slope.

The third argument is the gain that the slope promises there, to which the value should be precise.
"""


@dataclass(frozen=True)
class SearchResult:
    """Best point, its value, and how the search ended."""

    x: np.ndarray
    value: float
    iterations: int
    converged: bool
    reason: str
    curvature: np.ndarray
    """Inverse Hessian of minus the objective, as far as it was learnt."""
    stopped: bool = False
    """Whether the caller's `stop` ended the search."""


def maximise(
    objective: Objective,
    x: np.ndarray,
    typical_variance: float = TYPICAL_VARIANCE,
    first_step: float = 0.3,
    longest_step: float = 2.0,
    tolerance: float = 5e-3,
    noise: float = 1e-3,
    max_iterations: int = 100,
    stop: Callable[[np.ndarray, float, float], bool] = lambda x, value, promise: False,
    curvature: np.ndarray | None = None,
) -> SearchResult:
    """BFGS with backtracking that tolerates `noise` in the value.

    Directions not yet explored are given the curvature `1 / typical_variance`, so that a valley is not mistaken for
    an optimum; steps are at most `first_step` long at first and grow with success. Stops when the gain that the local
    quadratic model promises is below `tolerance`, when three steps together gain less than `noise`, or when `stop` says
    so of a point, its value and that promise. With the `curvature` that an earlier search has learnt, directions
    explored by it are taken up.
    """
    value, slope = objective(x, -np.inf, np.inf)
    untold = typical_variance * np.eye(len(x))
    H, fresh = (untold, True) if curvature is None else (curvature, False)

    def ended(iterations: int, converged: bool, reason: str = "", stopped: bool = False) -> SearchResult:
        return SearchResult(x, value, iterations, converged, reason, H, stopped)

    if not np.isfinite(value):
        return ended(0, False, "the objective is not finite at the start")
    radius = first_step
    path = [value]
    for iteration in range(max_iterations):
        step = H @ slope
        if 0.5 * float(slope @ step) < tolerance:
            return ended(iteration, True)
        step *= min(1.0, radius / np.abs(step).max())
        rise = float(slope @ step)
        trial = backtrack(_attempt(objective, x, value, rise, step, noise), rise, WORTH, noise)
        if trial is None:
            if fresh:
                return ended(iteration, False, "no step improves the objective")
            H, radius, fresh = untold, radius / 4, True
            continue
        _, (new_x, new_value, new_slope) = trial
        moved = np.abs(new_x - x).max()
        radius = min(longest_step, 2 * radius) if moved >= 0.99 * np.abs(step).max() else max(moved, radius / 4)
        H, fresh = _update(H, new_x - x, slope - new_slope, fresh)
        x, value, slope = new_x, new_value, new_slope
        path.append(value)
        if len(path) > 3 and value - path[-4] < noise:
            return ended(iteration + 1, True)
        if stop(x, value, 0.5 * float(slope @ H @ slope)):
            return ended(iteration + 1, True, stopped=True)
    return ended(max_iterations, False, f"the search used its {max_iterations} iterations")


def maximise_along(
    objective: Objective,
    x: np.ndarray,
    axes: np.ndarray,
    stop: Callable[[np.ndarray, float, float], bool],
    **options: float,
) -> SearchResult:
    """`maximise` over `x + axes z`, columns of `axes` orthogonal to each other; the result is in terms of `x`.

    Across the axes its curvature is that of directions not yet explored.
    """

    def along(z: np.ndarray, needed: float, stake: float) -> tuple[float, np.ndarray]:
        value, slope = objective(x + axes @ z, needed, stake)
        return value, axes.T @ slope

    def stop_along(z: np.ndarray, value: float, promise: float) -> bool:
        return stop(x + axes @ z, value, promise)

    found = maximise(along, np.zeros(axes.shape[1]), stop=stop_along, **options)  # type: ignore[arg-type]
    unit = axes / np.linalg.norm(axes, axis=0)
    across = TYPICAL_VARIANCE * (np.eye(len(x)) - unit @ unit.T)
    return replace(found, x=x + axes @ found.x, curvature=across + axes @ found.curvature @ axes.T)


def curvature_of(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The `curvature` for `maximise` that goes with weighted points (s, k) of a posterior: their covariance.

    Across the directions in which they differ it is that of directions not yet explored.
    """
    apart = (points - np.average(points, axis=0, weights=weights)) * np.sqrt(weights / weights.sum())[:, None]
    _, sizes, axes = np.linalg.svd(apart, full_matrices=False)
    known = axes[sizes > LEAST_SPREAD]
    across = TYPICAL_VARIANCE * (np.eye(points.shape[1]) - known.T @ known)
    return across + apart.T @ apart


def _attempt(
    objective: Objective, x: np.ndarray, value: float, rise: float, step: np.ndarray, noise: float
) -> Callable[[float], tuple[float, tuple[np.ndarray, float, np.ndarray]]]:
    """The gain of a part of a step; a value below what would be accepted need not be precise."""

    def attempt(length: float) -> tuple[float, tuple[np.ndarray, float, np.ndarray]]:
        new_x = x + length * step
        new_value, new_slope = objective(new_x, value + WORTH * length * rise - noise, length * rise)
        return new_value - value, (new_x, new_value, new_slope)

    return attempt


def _update(H: np.ndarray, s: np.ndarray, y: np.ndarray, fresh: bool) -> tuple[np.ndarray, bool]:
    """BFGS update of the inverse Hessian of minus the objective, skipped where the curvature is not positive."""
    sy = float(s @ y)
    if sy <= 1e-8 * np.linalg.norm(s) * np.linalg.norm(y) or np.linalg.norm(s) < 1e-6:
        return H, fresh
    left = np.eye(len(s)) - np.outer(s, y) / sy
    return left @ H @ left.T + np.outer(s, s) / sy, False
