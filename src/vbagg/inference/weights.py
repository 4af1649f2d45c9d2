"""The inner solve over `q`: Gauss-Newton start, then natural gradients with Anderson acceleration, MATH (10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from vbagg.inference.problem import Gaussian, StagedProblem

SMALLEST_PRECISION = 1e-2
"""Eigenvalues of the target precision are clipped here; the prior's are 1."""
ROUNDING = 1e-4
"""Gain, in nats, that may be lost in the rounding of float32 sums."""
CLOSE = 1e-4
"""Relative gain below which the mode is near enough to start from."""
MEMORY = 5
"""Past steps that the acceleration combines."""


@dataclass(frozen=True)
class Solution:
    """Result of the inner solve; `correction` is what it added to the natural parameters of its start."""

    q: Gaussian
    elbo: float
    steps: int
    converged: bool
    correction: np.ndarray


def solve_weights(
    problem: StagedProblem,
    warm: Solution | None = None,
    tolerance: float = 1e-5,
    max_steps: int = 60,
    carried: np.ndarray | None = None,
) -> Solution:
    """Maximise the ELBO over `q` for fixed parameters.

    The start is the mode and its curvature. With `warm`, the mode is sought near the warm mean and the warm
    correction is applied to it: it changes little between neighbouring parameters.
    """
    slack = tolerance + problem.problem.noise
    zero = np.zeros(problem.problem.n_features)
    starts = [v for v in (carried, None if warm is None else warm.q.mu) if v is not None]
    mode = laplace_start(problem, starts or [zero])
    anchor = natural_parameters(mode)
    state = _State(problem, mode)
    warmed = warm is not None and state.attempt(anchor + warm.correction, np.inf) is not None
    if not warmed and state.attempt(anchor, np.inf) is None:
        return Solution(mode, -np.inf, 0, False, np.zeros_like(anchor))
    for step in range(1, max_steps + 1):
        gain, full = state.advance(slack)
        if gain is None or (full and gain < slack):
            # stuck within the rounding of the ELBO is as good as converged
            settled = not state.clipped and (gain is not None or state.promised() < ROUNDING + slack)
            return Solution(state.q, state.elbo, step, settled, state.natural - anchor)
    return Solution(state.q, state.elbo, max_steps, False, state.natural - anchor)


def laplace_start(problem: StagedProblem, starts: Sequence[np.ndarray], max_steps: int = 30) -> Gaussian:
    """Mode of the weights by damped Gauss-Newton and the curvature there, from the best start or else from zero."""
    zero = np.zeros_like(starts[0])
    best = starts[0]
    if len(starts) > 1:
        values = [problem.gauss_newton(v)[0] for v in starts]
        best = starts[int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))]
    for v in (best, zero):
        try:
            return _climb(problem, v, max_steps)
        except np.linalg.LinAlgError:
            continue
    return Gaussian(zero, np.eye(len(zero)))


def _climb(problem: StagedProblem, v: np.ndarray, max_steps: int) -> Gaussian:
    value, slope, precision = problem.gauss_newton(v)
    if not np.isfinite(value):
        raise np.linalg.LinAlgError("the objective is not finite")
    for _ in range(max_steps):
        step = scipy.linalg.cho_solve(_cholesky(precision), slope)
        expected = float(slope @ step)
        damping = 1.0
        while damping > 1e-5:
            trial = problem.gauss_newton(v + damping * step)
            if trial[0] - value > 1e-2 * damping * expected:
                break
            damping /= 3
        else:
            break
        v = v + damping * step
        gain, (value, slope, precision) = trial[0] - value, trial
        if gain < CLOSE * max(abs(value), 100.0):
            break
    return _gaussian(v, _cholesky(precision))


def gaussian_from_natural(precision: np.ndarray, shift: np.ndarray) -> Gaussian:
    """`N(precision^-1 shift, precision^-1)` with a triangular factor of its covariance."""
    factor = _cholesky(precision)
    return _gaussian(scipy.linalg.cho_solve(factor, shift), factor)


def _cholesky(precision: np.ndarray) -> tuple[np.ndarray, bool]:
    if not np.isfinite(precision).all():
        raise np.linalg.LinAlgError("the precision is not finite")
    return scipy.linalg.cho_factor(precision, lower=True, check_finite=False)


def _gaussian(mu: np.ndarray, factor: tuple[np.ndarray, bool]) -> Gaussian:
    covariance = scipy.linalg.cho_solve(factor, np.eye(len(mu)))
    return Gaussian(mu, np.linalg.cholesky((covariance + covariance.T) / 2))


def natural_parameters(q: Gaussian) -> np.ndarray:
    """Precision and precision times mean, side by side (m, m+1)."""
    inverse = scipy.linalg.solve_triangular(q.factor, np.eye(len(q.mu)), lower=True)
    precision = inverse.T @ inverse
    return np.column_stack([precision, precision @ q.mu])


@dataclass
class _State:
    """Current `q` in natural parameters (precision, precision @ mu), with its target and past steps."""

    problem: StagedProblem
    q: Gaussian
    past: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metric = self.q.factor
        self.elbo = -np.inf

    def _accept(self, q: Gaussian, natural: np.ndarray, evaluation: tuple) -> None:
        self.q, self.natural = q, natural
        self.elbo, d_mu, d_sigma = evaluation
        target, self.clipped = _clip(np.eye(len(q.mu)) - 2 * d_sigma)
        # the step to natural parameters (target, target mu + gradient) is the natural gradient of length one
        self.target = np.column_stack([target, target @ q.mu + d_mu - q.mu])

    def advance(self, tolerance: float) -> tuple[float | None, bool]:
        """One step that does not lower the ELBO: accelerated, else plain, else shortened; gain and whether full."""
        residual = self.target - self.natural
        self.past = [*self.past, (self._whiten(self.target), self._whiten(residual))][-MEMORY:]
        if len(self.past) > 1:
            gain = self.attempt(self._accelerated(), tolerance)
            if gain is not None:
                return gain, True
            self.past = self.past[-1:]
        rho = 1.0
        while rho > 1e-4:
            gain = self.attempt(self.natural + rho * residual, tolerance)
            if gain is not None:
                return gain, rho == 1.0
            rho /= 3
            self.past = []
        return None, False

    def promised(self) -> float:
        """Gain that a full step promises: squared lengths of the mean's and the precision's move, by `q`'s metric."""
        C = self.q.factor
        move = self.target - self.natural
        precision, shift = move[:, :-1], move[:, -1]
        mean = C.T @ (shift - precision @ self.q.mu)
        return 0.5 * float(mean @ mean) + 0.25 * float(np.sum((C.T @ precision @ C) ** 2))

    def attempt(self, natural: np.ndarray, tolerance: float) -> float | None:
        """Move to these natural parameters unless the ELBO falls by more than the tolerance; the gain."""
        precision = (natural[:, :-1] + natural[:, :-1].T) / 2
        try:
            q = gaussian_from_natural(precision, natural[:, -1])
        except np.linalg.LinAlgError:
            return None
        evaluation = self.problem.evaluate(q)
        gain = evaluation[0] - self.elbo
        if not gain > -tolerance:
            return None
        self._accept(q, natural, evaluation)
        return gain

    def _accelerated(self) -> np.ndarray:
        targets = np.stack([target for target, _ in self.past])
        residuals = np.stack([residual for _, residual in self.past])
        differences = np.diff(residuals, axis=0)
        mix = np.linalg.lstsq(differences.T, residuals[-1], rcond=1e-8)[0]
        return self._unwhiten(targets[-1] - mix @ np.diff(targets, axis=0))

    def _whiten(self, natural: np.ndarray) -> np.ndarray:
        """Natural parameters in the units of the starting covariance, as a vector."""
        C = self.metric
        return np.concatenate([np.ravel(C.T @ natural[:, :-1] @ C), C.T @ natural[:, -1]])

    def _unwhiten(self, vector: np.ndarray) -> np.ndarray:
        m = len(self.metric)
        left = scipy.linalg.solve_triangular(self.metric, np.eye(m), lower=True).T
        return np.column_stack([left @ vector[: m * m].reshape(m, m) @ left.T, left @ vector[m * m :]])


def _clip(target: np.ndarray) -> tuple[np.ndarray, bool]:
    try:
        np.linalg.cholesky(target - SMALLEST_PRECISION * np.eye(len(target)))
        return target, False
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(target)
    return (vectors * np.maximum(values, SMALLEST_PRECISION)) @ vectors.T, True
