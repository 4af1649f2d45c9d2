"""Mode of the weights and the curvature there: where the solve over `q` starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg

from vbagg.elbo import PAPERS
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.problem import StagedProblem
from vbagg.stepping import backtrack

CLOSE = 1e-4
"""Relative gain below which the mode is near enough to start from."""


def laplace_start(problem: StagedProblem, starts: Sequence[np.ndarray], max_steps: int = 30) -> Gaussian:
    """Mode of the weights by damped Gauss-Newton and the curvature there, from the best start or else from zero."""
    found = [problem.gauss_newton(v) for v in starts]
    best = int(np.argmax([value if np.isfinite(value) else -np.inf for value, _, _ in found]))
    zero = np.zeros_like(starts[0])
    for v, known in ((starts[best], found[best]), (zero, None)):
        try:
            return _climb(problem, v, known or problem.gauss_newton(v), max_steps)
        except np.linalg.LinAlgError:
            continue
    return Gaussian(zero, np.eye(len(zero)))


def _climb(
    problem: StagedProblem, v: np.ndarray, found: tuple[float, np.ndarray, np.ndarray], max_steps: int
) -> Gaussian:
    """The mode from a start where value, slope and precision have been `found`."""
    value, slope, precision = found
    if not np.isfinite(value):
        raise np.linalg.LinAlgError("the objective is not finite")
    for _ in range(max_steps):
        step = scipy.linalg.cho_solve(_cholesky(precision), slope)
        better = backtrack(_attempt(problem, v, value, step), float(slope @ step), 1e-2, tries=11, shrink=1 / 3)
        if better is None:
            break
        length, trial = better
        v = v + length * step
        gain, (value, slope, precision) = trial[0] - value, trial
        if gain < CLOSE * max(abs(value), 100.0):
            break
    return Gaussian(v, _factor_of_inverse(precision))


def _attempt(
    problem: StagedProblem, v: np.ndarray, value: float, step: np.ndarray
) -> Callable[[float], tuple[float, tuple[float, np.ndarray, np.ndarray]]]:
    def attempt(length: float) -> tuple[float, tuple[float, np.ndarray, np.ndarray]]:
        trial = problem.gauss_newton(v + length * step)
        return trial[0] - value, trial

    return attempt


def linearised(problem: StagedProblem, q: Gaussian) -> Gaussian:
    """`q` with the covariance that the posterior has where totals are linear in the weights, `(I + J^T F J)^-1`.

    Where totals are known precisely, the posterior lies along a curved surface on which they are constant. The best
    Gaussian inside it is narrower than it is; this one is as wide (`benchmarks/against_mcmc.py`). An output that is
    known within bounds only may tell nothing at the mean: what it tells is averaged over `q`, MATH (17b). The paper's
    approximations keep their `q`.
    """
    if problem.spec.approximation in PAPERS:
        return q
    try:
        return Gaussian(q.mu, _factor_of_inverse(problem.precision_under(q)))
    except np.linalg.LinAlgError:
        return q


def gaussian_from_natural(precision: np.ndarray, shift: np.ndarray) -> Gaussian:
    """`N(precision^-1 shift, precision^-1)` with a triangular factor of its covariance."""
    factor = _factor_of_inverse(precision)
    return Gaussian(factor @ (factor.T @ shift), factor)


def _cholesky(precision: np.ndarray) -> tuple[np.ndarray, bool]:
    if not np.isfinite(precision).all():
        raise np.linalg.LinAlgError("the precision is not finite")
    return scipy.linalg.cho_factor(precision, lower=True, check_finite=False)


def _factor_of_inverse(precision: np.ndarray) -> np.ndarray:
    """Lower triangular `C` with `C C^T` the inverse: inverts the factor of the precision in reversed order."""
    reversed_factor, _ = _cholesky(precision[::-1, ::-1])
    inverse = scipy.linalg.solve_triangular(reversed_factor, np.eye(len(precision)), lower=True)
    return np.ascontiguousarray(inverse.T[::-1, ::-1])
