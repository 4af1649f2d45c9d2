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
    """One evaluation: ELBO maximised over `q` plus log prior, and its gradient."""

    x: np.ndarray
    value: float
    slope: np.ndarray
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

    def __call__(self, x: np.ndarray, precision: float, slope: bool = True) -> Point:
        """Evaluate at `x` with `q` solved to `precision` nats."""
        parameters = self.flat.unravel(x)
        staged = self.problem.at(parameters)
        warm = None if self.best is None else self.best.solution
        solution = solve_weights(staged, warm, precision, carried=self._carried(staged))
        prior, prior_slopes = self.log_prior(parameters)
        value = solution.elbo + prior
        slopes = np.zeros_like(x)
        if slope and np.isfinite(value):
            slopes = self.flat.ravel(staged.parameter_slopes(solution.q)) + self.flat.ravel(prior_slopes)
        point = Point(np.array(x), value, slopes, parameters, solution, staged.jitter, staged.basis)
        if np.isfinite(value) and (self.best is None or value > self.best.value):
            self.best = point
        return point

    def _carried(self, staged: StagedProblem) -> np.ndarray | None:
        """Mean of the best weights, carried over to the parameters of `staged`."""
        if self.best is None:
            return None
        return carry_weights(self.problem.spec.feature_map, self.best.basis, staged.basis, self.best.solution.q.mu)


def solve_in_full(problem: Problem, point: Point, precision: float) -> tuple[Solution, float, tuple[float, ...]]:
    """`q` at a point solved with all individuals, the objective with it, and the jitter."""
    staged = problem.at(point.parameters)
    solution = refine_weights(staged, point.solution, precision)
    return solution, solution.elbo + point.value - point.solution.elbo, staged.jitter
