"""The objective with `q` maximised out, as a function of the trainable parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbagg.elbo import Parameters
from vbagg.features import Basis, carry_weights
from vbagg.inference.problem import Problem, StagedProblem
from vbagg.inference.result import FlatParameters
from vbagg.inference.weights import Solution, refine_weights, solve_weights
from vbagg.priors import LogPrior


@dataclass(frozen=True)
class Point:
    """One evaluation: ELBO maximised over `q` plus log prior, and its gradient if that was wanted."""

    x: np.ndarray
    value: float
    slope: np.ndarray | None
    parameters: Parameters
    solution: Solution
    jitter: tuple[float, ...]
    basis: Basis


@dataclass
class Profile:
    """Profile objective; remembers the best point and starts the next solve from it."""

    problem: Problem
    flat: FlatParameters
    log_prior: LogPrior
    best: Point | None = None
    max_steps: int = 100
    """Of each solve of `q`."""

    def __call__(self, x: np.ndarray, precision: float, slope: bool = True, needed: float = -np.inf) -> Point:
        """Evaluate at `x` with `q` solved to `precision` nats, or until the value is clearly below what is `needed`."""
        parameters = self.flat.unravel(x)
        staged = self.problem.at(parameters)
        again = self.best is not None and np.array_equal(x, self.best.x)
        prior, prior_slopes = self.log_prior(parameters)
        solution = self._solve(staged, precision, needed - prior, again)
        value = solution.elbo + prior
        slopes = None
        if slope and np.isfinite(value) and value > needed:
            slopes = self.flat.ravel(staged.parameter_slopes(solution.q)) + self.flat.ravel(prior_slopes)
        point = Point(np.array(x), value, slopes, parameters, solution, staged.jitter, staged.basis)
        if np.isfinite(value) and (self.best is None or again or value > self.best.value):
            self.best = point
        return point

    def _solve(self, staged: StagedProblem, precision: float, needed: float, again: bool) -> Solution:
        if self.best is None:
            return solve_weights(staged, None, precision, self.max_steps)
        best = self.best.solution
        if again:
            return refine_weights(staged, best, precision, self.max_steps)
        carried = carry_weights(self.problem.spec.feature_map, self.best.basis, staged.basis, best.q.mu)
        return solve_weights(staged, best, precision, self.max_steps, carried, needed)


def solve_in_full(staged: StagedProblem, point: Point, precision: float) -> tuple[Solution, float]:
    """`q` at a point solved with all individuals, and the objective with it."""
    solution = refine_weights(staged, point.solution, precision)
    return solution, solution.elbo + point.value - point.solution.elbo
