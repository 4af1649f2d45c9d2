"""A fitting problem: chunks of bags, compiled sums over them, and nothing `n`-sized outside this file."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from vbagg.chunks import Chunk, gather
from vbagg.elbo import Parameters, Spec, Staged
from vbagg.features import JITTER, SINGLE_JITTER, compiled_basis, feature_count, needed_jitter
from vbagg.inference import passes
from vbagg.latent import slope_in_factor, slopes_through_latent, with_latent
from vbagg.representatives import Representation, Representatives
from vbagg.threads import in_threads

Array = jax.Array
LARGEST_SCALE = 10.0
"""Factor by which the residual variance of representatives is corrected at most."""
LONG = 2e11
"""Products of a feature with a weight, over all passes, from which single precision is worth its rounding."""


@dataclass(frozen=True)
class Gaussian:
    """`q(v) = N(mu, factor factor^T)` over the whitened weights."""

    mu: np.ndarray
    factor: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """`Sigma`."""
        return self.factor @ self.factor.T

    def kl(self) -> float:
        """KL divergence from the prior `N(0, I)`, MATH (4)."""
        log_det = 2 * np.sum(np.log(np.abs(np.diag(self.factor))))
        return 0.5 * float(np.sum(self.factor**2) + self.mu @ self.mu - len(self.mu) - log_det)


class Evaluation(NamedTuple):
    """ELBO, gradients of its data term in mean and triangular factor, and the data term of each bag."""

    elbo: float
    d_mu: np.ndarray
    d_factor: np.ndarray
    terms: np.ndarray


class Problem:
    """Sums over chunks for one model and data set.

    Parameters
    ----------
    spec
        What is computed.
    chunks
        The bags.
    memory
        Bytes that staged chunks may keep; beyond it they are staged anew at each pass.
    """

    def __init__(self, spec: Spec, chunks: list[Chunk], landmarks: tuple[Any, ...], memory: float) -> None:
        self.spec, self.chunks, self.memory = spec, chunks, memory
        self.n_features = feature_count(landmarks, spec.feature_map)
        self.collapse = [self._worth_collapsing(chunk) for chunk in chunks]
        self.n_bags = int(sum(np.sum(chunk.valid) for chunk in chunks))
        # rounding of float32 sums over individuals, in nats
        self.noise = 1e-10 * float(sum(np.sum(chunk.valid * np.abs(chunk.y)) for chunk in chunks))
        self.rough: Problem | None = None
        """The same bags with fewer individuals, where parameters may be searched for."""
        self.evaluations = 0
        self.max_jitter = 0.0

    def represent(self, representatives: Representatives, build: Callable[[Representation], Problem]) -> None:
        """Let parameters be searched for with fewer individuals."""
        self._representatives, self._build = representatives, build
        self.rough = build(representatives.chosen)

    def refine(self, error: np.ndarray, gap: float, last_error: float) -> bool:
        """More representatives where the data terms of bags are off, if the ELBO is too; whether there are any."""
        if self.rough is None or not self._representatives.refine(error, gap, last_error):
            return False
        finer = self._build(self._representatives.chosen)
        finer.evaluations, finer.max_jitter = self.rough.evaluations, self.rough.max_jitter
        self.rough = finer
        return True

    def scale_residuals(self, staged: StagedProblem, q: Gaussian) -> None:
        """Let the totals of representatives have the residual variance of all individuals, `staged`, at this `q`.

        Means of groups lie nearer to landmarks than individuals do, so that less of their variation is residual.
        """
        assert self.rough is not None
        few, _ = self.rough.at(staged.parameters, staged.jitter).spreads(q)
        before = gather([chunk.residual_scale for chunk in self.rough.chunks], self.rough.chunks)
        scale = before * (staged.spreads(q)[0] / np.maximum(few, 1e-12)) ** 2
        scale = np.clip(scale, 1 / LARGEST_SCALE, LARGEST_SCALE)
        self.rough.chunks = [
            replace(chunk, residual_scale=np.where(chunk.position < 0, 1.0, scale[np.maximum(chunk.position, 0)]))
            for chunk in self.rough.chunks
        ]

    @property
    def parts(self) -> list[Problem]:
        """The problem itself and its rough one."""
        return [self] if self.rough is None else [self, self.rough]

    @property
    def products(self) -> int:
        """Products of a feature with a weight in one pass over all individuals."""
        return sum(chunk.weight.size for chunk in self.chunks) * self.n_features**2

    def _worth_collapsing(self, chunk: Chunk) -> bool:
        if self.spec.approximation not in ("matched", "taylor"):
            return False
        if self.spec.link.bag_sums == "linear":
            return True
        if self.spec.link.bag_sums != "quadratic" or chunk.residual != "exact":
            return False
        n, m = chunk.shape[1], self.n_features
        statistics = 16 * m * m * sum(len(c.y) for c in self.chunks if c.residual == "exact")
        return 2 * m**3 < n * m * m + n * n * m and statistics < self.memory

    def at(self, parameters: Parameters, jitter: tuple[float, ...] | None = None) -> StagedProblem:
        """The problem for given kernel and likelihood parameters; jitter as small as they allow if not given."""
        if jitter is None:
            least = SINGLE_JITTER if self.chunks[0].X.dtype == np.float32 else JITTER
            jitter = needed_jitter(self.spec.feature_map, parameters.kernel, parameters.landmarks, least)
        self.max_jitter = max(self.max_jitter, *jitter)
        return StagedProblem(self, parameters, jitter)


class StagedProblem:
    """A problem with its parameters fixed: functions of `q` alone."""

    def __init__(self, problem: Problem, parameters: Parameters, jitter: tuple[Any, ...]) -> None:
        self.problem, self.spec = problem, problem.spec
        self.parameters, self.jitter = parameters, jitter
        self.basis = compiled_basis(self.spec.feature_map, parameters.kernel, parameters.landmarks, jitter)
        self._kept: dict[int, Staged] = {}
        self._bytes, self._staging = 0, Lock()
        self._last: tuple[Gaussian, Evaluation] | None = None

    def _staged(self, index: int) -> Staged:
        if index in self._kept:
            return self._kept[index]
        problem = self.problem
        chunk, collapse = problem.chunks[index], problem.collapse[index]
        with self._staging:  # one at a time: what is needed meanwhile takes more room than the result
            staged = jax.block_until_ready(passes.compiled_stage(self.spec, self.basis, chunk, collapse))
            size = sum(leaf.nbytes for leaf in jax.tree.leaves(staged))
            if self._bytes + size <= problem.memory:
                self._kept[index] = staged
                self._bytes += size
        return staged

    def _each(self, function: Callable[[int], Any]) -> Iterator[Any]:
        """Results of a function for each chunk; those of larger bags, which have one shape, several at a time."""
        yield from in_threads(function, range(len(self.problem.chunks)), lambda i: -1 if self._outside(i) else i)

    def _outside(self, index: int) -> bool:
        """Whether the latent values of a chunk are worked out outside compiled functions."""
        problem = self.problem
        tiled = problem.chunks[index].tiles is not None and not problem.collapse[index]
        return tiled and self.spec.approximation != "montecarlo"

    def _sum(self, function: Any, *arguments: Any) -> Any:
        return _added(
            self._each(lambda i: function(self.spec, self.parameters.likelihood, self._staged(i), *arguments))
        )

    def _at_q(self, function: Any, q: Gaussian, index: int) -> tuple[Any, Staged, Any]:
        """Result of a compiled function of `q`, the staged chunk, and `F` where it was worked out outside."""
        staged, F = self._staged(index), None
        if self._outside(index):
            moments, F = with_latent(staged.moments, q.mu, q.factor)
            staged = replace(staged, moments=moments)
        found = function(self.spec, self.parameters.likelihood, staged, q.mu, q.factor)
        return jax.tree.map(np.asarray, found), staged, F

    def _slopes(self, q: Gaussian, index: int) -> tuple[tuple[Any, ...], np.ndarray]:
        """Slopes of a chunk in mean and factor `C`, a part of the latter as `C^T dC`, and the chunk's terms."""
        ((d_mu, d_factor, d_latent), terms), staged, F = self._at_q(passes.terms_and_slopes, q, index)
        if F is None:
            return (d_mu, d_factor, 0.0), terms
        by_mean, product = slopes_through_latent(staged.moments, F, d_latent)
        return (d_mu + by_mean, d_factor, product), terms

    def evaluate(self, q: Gaussian) -> Evaluation:
        """ELBO and slopes; the last result is kept."""
        if self._last is not None and self._last[0] is q:
            return self._last[1]
        self.problem.evaluations += 1
        terms: list[np.ndarray] = []

        def slopes() -> Iterator[Any]:
            for own, of_chunk in self._each(partial(self._slopes, q)):
                terms.append(of_chunk)
                yield own

        d_mu, d_factor, product = _added(slopes())
        if product.ndim:
            d_factor = d_factor + slope_in_factor(q.factor, product)
        of_bags = gather(terms, self.problem.chunks)
        found = Evaluation(float(of_bags.sum()) - q.kl(), d_mu, np.tril(d_factor), of_bags)
        self._last = q, found
        return found

    def spreads(self, q: Gaussian) -> tuple[np.ndarray, np.ndarray]:
        """Sd of each total's residual and of its output's noise (b), relative to the total."""
        parts = list(self._each(lambda i: self._at_q(passes.spreads, q, i)[0]))
        residual, noise = gather(parts, self.problem.chunks).T
        return residual, noise

    def elbo(self, q: Gaussian) -> float:
        """ELBO alone."""
        return float(sum(self._each(lambda i: self._at_q(passes.value, q, i)[0]))) - q.kl()

    def gauss_newton(self, v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Log posterior of the weights at `v`, its gradient, and the Gauss-Newton precision."""
        value, slope, information = self._sum(passes.gauss_newton, v)
        return float(value) - 0.5 * float(v @ v), slope - v, information + np.eye(len(v))

    def precision(self, v: np.ndarray) -> np.ndarray:
        """The Gauss-Newton precision alone."""
        if self.problem.rough is None:
            return self.gauss_newton(v)[2]  # which a search has compiled
        return self._sum(passes.information, v) + np.eye(len(v))

    def parameter_slopes(self, q: Gaussian) -> Parameters:
        """Partial gradient of the ELBO in the parameters; the total one where `q` is optimal."""
        parameters = self.parameters
        of_basis, likelihood = _added(
            passes.basis_slopes(self.spec, self.basis, parameters.likelihood, chunk, q.mu, q.factor)
            for chunk in self.problem.chunks
        )
        kernel, landmarks = passes.through_basis(
            self.spec.feature_map, parameters.kernel, parameters.landmarks, self.jitter, of_basis
        )
        return jax.tree.map(np.asarray, Parameters(kernel, likelihood, landmarks))


def _added(parts: Iterator[Any]) -> Any:
    """Sum of trees of arrays."""
    total = None
    for part in parts:
        total = part if total is None else jax.tree.map(operator.add, total, part)
    return jax.tree.map(np.asarray, total)
