"""The inner solve over `q`: natural gradients to come near from the mode, then limited-memory BFGS, MATH (10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from vbagg.inference.chart import Chart, Curvature
from vbagg.inference.gaussian import Gaussian
from vbagg.inference.mode import gaussian_from_natural, laplace_start
from vbagg.inference.problem import StagedProblem
from vbagg.stepping import backtrack

SMALLEST_PRECISION = 1e-2
"""Eigenvalues of the target precision are clipped here; the prior's are 1."""
ROUNDING = 1e-4
"""Gain, in nats, that may be lost in the rounding of float32 sums."""
HOPE = 5.0
"""Times what a step promises, and a nat more, that all steps together may gain."""
NEAR, FAR = 2.0, 20.0
"""Gain, in nats, that a natural gradient promises where quasi-Newton steps take over, and where the mode may be nearer
to the optimum than a `q` displaced from it."""


@dataclass(frozen=True)
class Solution:
    """Result of the inner solve, and what a solve for neighbouring parameters can start from."""

    q: Gaussian
    elbo: float
    terms: np.ndarray
    """ELBO's data term of each bag."""
    steps: int
    converged: bool
    mode: Chart
    """Coordinates around the mode."""
    curvature: Curvature

    @property
    def displacement(self) -> np.ndarray:
        """How far `q` is from the mode, in the coordinates around it."""
        return self.mode.vector(self.q)


def solve_weights(
    problem: StagedProblem,
    warm: Solution | None = None,
    tolerance: float = 1e-5,
    max_steps: int = 100,
    carried: np.ndarray | None = None,
    needed: float = -np.inf,
) -> Solution:
    """Maximise the ELBO over `q` for fixed parameters, until a step promises less than `tolerance` nats.

    The start is the mode and its curvature. With `warm`, the mode is sought near the warm mean, and `q` is displaced
    from it as the warm one is from its own mode: that changes little between neighbouring parameters, and is dropped
    where it changes much. With `needed` the solve ends, not converged, where an ELBO that high is out of reach.
    """
    starts = [v for v in (carried, None if warm is None else warm.q.mu) if v is not None]
    mode = Chart(laplace_start(problem, starts or [np.zeros(problem.problem.n_features)]))
    state, curvature = None, Curvature()
    if warm is not None:
        state, curvature = _State.at(problem, mode.gaussian(warm.displacement)), warm.curvature
    if state is None or state.promise > FAR:
        at_mode = _State.at(problem, mode.origin)
        if state is None or (at_mode is not None and at_mode.elbo > state.elbo):
            state, curvature = at_mode, Curvature()
    if state is None:
        terms = np.full(problem.problem.n_bags, -np.inf)
        return Solution(mode.origin, -np.inf, terms, 0, False, mode, Curvature())
    return _ascend(mode, state, curvature, tolerance, max_steps, needed)


def refine_weights(problem: StagedProblem, rough: Solution, tolerance: float, max_steps: int = 100) -> Solution:
    """Maximise the ELBO from the solution of nearly the same problem with the same parameters."""
    state = _State.at(problem, rough.q)
    if state is None:
        return solve_weights(problem, None, tolerance, max_steps)
    near = FAR if rough.curvature.moves else NEAR
    return _ascend(rough.mode, state, rough.curvature, tolerance, max_steps, near=near)


def promised_gain(problem: StagedProblem, q: Gaussian) -> float:
    """Nats by which a natural gradient would raise the ELBO."""
    state = _State.at(problem, q)
    return np.inf if state is None else state.promise


def _ascend(
    mode: Chart,
    state: _State,
    curvature: Curvature,
    tolerance: float,
    max_steps: int,
    needed: float = -np.inf,
    near: float = NEAR,
) -> Solution:
    """Maximise from a state."""

    def hopeless(elbo: float, promise: float) -> bool:
        return elbo + HOPE * (1.0 + promise) < needed

    noise = state.problem.problem.noise
    slack, steps = tolerance + noise, 0
    while steps < max_steps and state.promise > near and not hopeless(state.elbo, state.promise):
        closer = state.natural_step()
        if closer is None:
            break
        state, curvature, steps = closer, Curvature(), steps + 1
    ascent = _Ascent(Chart(state.q), state, curvature)
    while steps < max_steps and not hopeless(ascent.state.elbo, ascent.promised):
        steps += 1
        if ascent.promised < slack or not ascent.step(noise):
            break
    settled = ascent.promised < slack + ROUNDING
    last = ascent.state
    return Solution(last.q, last.elbo, last.terms, steps, settled, mode, ascent.curvature)


@dataclass(frozen=True)
class _State:
    """A Gaussian with the ELBO, its gradients in mean and triangular factor, and its terms."""

    problem: StagedProblem
    q: Gaussian
    elbo: float
    d_mu: np.ndarray
    d_factor: np.ndarray
    terms: np.ndarray

    @classmethod
    def at(cls, problem: StagedProblem, q: Gaussian) -> _State | None:
        """None where there is no Gaussian or the ELBO is not finite."""
        diagonal = np.diag(q.factor)
        if not (np.isfinite(q.factor).all() and (diagonal > 0).all()):
            return None
        elbo, d_mu, d_factor, terms = problem.evaluate(q)
        if not np.isfinite(elbo):
            return None
        return cls(problem, q, elbo, d_mu - q.mu, d_factor - q.factor + np.diag(1 / diagonal), terms)

    @cached_property
    def promise(self) -> float:
        """Gain that a step of natural gradient promises."""
        slope = Chart(self.q).slope(self.d_mu, self.d_factor)
        return 0.5 * float(slope @ slope)

    def natural_step(self) -> _State | None:
        """A step along the natural gradient, short enough that the ELBO rises; None if there is none."""
        inverse = scipy.linalg.solve_triangular(self.q.factor, np.eye(len(self.q.mu)), lower=True)
        precision = inverse.T @ inverse
        target = _clip(precision - 2 * _through_cholesky(self.q.factor, inverse, self.d_factor))

        def attempt(length: float) -> tuple[float, _State | None]:
            trial = precision + length * (target - precision)
            q = gaussian_from_natural(trial, trial @ self.q.mu + length * self.d_mu)
            return self.gain_at(q)

        found = backtrack(attempt, 2 * self.promise, least=0.0, tries=9, shrink=1 / 3)
        return None if found is None else found[1]

    def gain_at(self, q: Gaussian) -> tuple[float, _State | None]:
        """How much higher the ELBO is at another Gaussian, and the state there."""
        state = _State.at(self.problem, q)
        return (-np.inf if state is None else state.elbo - self.elbo), state


@dataclass
class _Ascent:
    """Quasi-Newton steps in the coordinates of a chart, from its origin."""

    chart: Chart
    state: _State
    curvature: Curvature

    def __post_init__(self) -> None:
        self.z = self.chart.centre
        self._aim()

    def _aim(self) -> None:
        self.slope = self.chart.slope(self.state.d_mu, self.state.d_factor)
        self.direction = self.curvature.direction(self.slope)
        self.rise = float(self.slope @ self.direction)
        self.promised = 0.5 * self.rise

    def step(self, noise: float) -> bool:
        """Move uphill, if need be with the curvature learnt forgotten; whether that was possible."""
        while (found := backtrack(self._attempt, self.rise, noise=noise)) is None:
            if not self.curvature.moves:
                return False
            self.curvature = Curvature()
            self._aim()
        length, state = found
        assert state is not None
        before, move = self.slope, length * self.direction
        self.z, self.state = self.z + move, state
        after = self.chart.slope(state.d_mu, state.d_factor)
        self.curvature = self.curvature.with_move(move, before - after)
        self._aim()
        return True

    def _attempt(self, length: float) -> tuple[float, _State | None]:
        return self.state.gain_at(self.chart.gaussian(self.z + length * self.direction))


def _through_cholesky(C: np.ndarray, inverse: np.ndarray, d_factor: np.ndarray) -> np.ndarray:
    """Gradient in `Sigma` from the gradient in its Cholesky factor `C`."""
    inner = np.tril(C.T @ d_factor)
    inner[np.diag_indices_from(inner)] /= 2
    return inverse.T @ (inner + inner.T) @ inverse / 2


def _clip(target: np.ndarray) -> np.ndarray:
    try:
        np.linalg.cholesky(target - SMALLEST_PRECISION * np.eye(len(target)))
        return target
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(target)
    return (vectors * np.maximum(values, SMALLEST_PRECISION)) @ vectors.T
