"""A fitting problem: chunks of bags, compiled sums over them, and nothing `n`-sized outside this file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.chunks import Chunk
from vbagg.compiling import LIGHT
from vbagg.elbo import Parameters, Spec, Staged, data_term, stage
from vbagg.features import (
    JITTER,
    SINGLE_JITTER,
    compiled_basis,
    feature_count,
    make_basis,
    needed_jitter,
)
from vbagg.moments import mean_and_jacobian

Array = jax.Array
LONG = 2e11
"""Products of a feature with a weight, over all passes, from which loops should be compiled to run fast."""
PASSES, PASSES_OF_A_SEARCH = 10, 100
"""Passes over the data that the last solve of `q` takes, and a search for parameters."""


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


def _value_and_slopes(spec: Spec, p: dict, staged: Staged, mu: Array, factor: Array) -> tuple[Array, tuple]:
    def value(mu: Array, factor: Array) -> Array:
        return data_term(spec, p, staged, mu, factor)

    return jax.value_and_grad(value, argnums=(0, 1))(mu, factor)


def _value(spec: Spec, p: dict, staged: Staged, mu: Array, factor: Array) -> Array:
    return data_term(spec, p, staged, mu, factor)


def _gauss_newton(spec: Spec, p: dict, staged: Staged, mu: Array) -> tuple[Array, Array, Array]:
    T, J = mean_and_jacobian(spec.link, staged.moments, mu)

    def log_prob(T: Array) -> Array:
        return spec.likelihood.log_prob(staged.y, T, staged.aux, p)

    value, slope = jax.jvp(log_prob, (T,), (jnp.ones_like(T),))
    weight = staged.valid * spec.likelihood.fisher(T, staged.aux, p)
    return jnp.sum(staged.valid * value), J.T @ (staged.valid * slope), (J.T * weight) @ J


def _parameter_slopes(
    spec: Spec, parameters: Parameters, jitter: tuple, chunk: Chunk, mu: Array, factor: Array
) -> Parameters:
    # one pass: summing over individuals directly is cheaper than differentiating bag sums
    def value(parameters: Parameters) -> Array:
        basis = make_basis(spec.feature_map, parameters.kernel, parameters.landmarks, jitter)
        return data_term(spec, parameters.likelihood, stage(spec, basis, chunk, False), mu, factor)

    return jax.grad(value)(parameters)


class Compiled(NamedTuple):
    """The functions of a chunk."""

    stage: Any
    value_and_slopes: Any
    value: Any
    gauss_newton: Any
    parameter_slopes: Any


def _compile(**options: Any) -> Compiled:
    functions = (_value_and_slopes, _value, _gauss_newton, _parameter_slopes)
    others = (jax.jit(function, static_argnames=("spec",), **options) for function in functions)
    return Compiled(jax.jit(stage, static_argnames=("spec", "collapse"), **options), *others)


QUICK_TO_COMPILE, QUICK_TO_RUN = _compile(**LIGHT), _compile()


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

    def __init__(self, spec: Spec, chunks: list[Chunk], landmarks: tuple, memory: float) -> None:
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

    @property
    def parts(self) -> list[Problem]:
        """The problem itself and its rough one."""
        return [self] if self.rough is None else [self, self.rough]

    @property
    def compiled(self) -> Compiled:
        """Functions compiled as befits the work ahead."""
        passes = PASSES_OF_A_SEARCH if self.rough is None else PASSES
        products = sum(chunk.weight.size for chunk in self.chunks) * self.n_features**2
        return QUICK_TO_RUN if products * passes > LONG else QUICK_TO_COMPILE

    def _worth_collapsing(self, chunk: Chunk) -> bool:
        if self.spec.approximation not in ("matched", "taylor"):
            return False
        if self.spec.link.name == "identity":
            return True
        n, m = chunk.shape[1], self.n_features
        direct, collapsed = n * m * m + n * n * m * (chunk.residual == "exact"), 2 * m**3
        total = sum(len(c.y) for c in self.chunks)
        return self.spec.link.name == "square" and collapsed < direct and 16 * total * m * m < self.memory

    def at(self, parameters: Parameters, jitter: tuple[float, ...] | None = None) -> StagedProblem:
        """The problem for given kernel and likelihood parameters; jitter as small as they allow if not given."""
        if jitter is None:
            least = SINGLE_JITTER if self.chunks[0].X.dtype == np.float32 else JITTER
            jitter = needed_jitter(self.spec.feature_map, parameters.kernel, parameters.landmarks, least)
        self.max_jitter = max(self.max_jitter, *jitter)
        return StagedProblem(self, parameters, jitter)


class StagedProblem:
    """A problem with its parameters fixed: functions of `q` alone."""

    def __init__(self, problem: Problem, parameters: Parameters, jitter: tuple) -> None:
        self.problem, self.spec, self.compiled = problem, problem.spec, problem.compiled
        self.parameters, self.jitter = parameters, jitter
        self.basis = compiled_basis(self.spec.feature_map, parameters.kernel, parameters.landmarks, jitter)
        self._kept: dict[int, Staged] = {}
        self._bytes = 0

    def _staged(self, index: int) -> Staged:
        if index in self._kept:
            return self._kept[index]
        problem = self.problem
        chunk, collapse = problem.chunks[index], problem.collapse[index]
        staged = self.compiled.stage(self.spec, self.basis, chunk, collapse)
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(staged))
        if self._bytes + size <= problem.memory:
            self._kept[index] = staged
            self._bytes += size
        return staged

    def _sum(self, function, *arguments):
        total = None
        for index in range(len(self.problem.chunks)):
            part = function(self.spec, self.parameters.likelihood, self._staged(index), *arguments)
            total = part if total is None else jax.tree.map(jnp.add, total, part)
        return jax.tree.map(np.asarray, total)

    def evaluate(self, q: Gaussian) -> tuple[float, np.ndarray, np.ndarray]:
        """ELBO and the data term's gradients in `mu` and the triangular factor."""
        self.problem.evaluations += 1
        value, (d_mu, d_factor) = self._sum(self.compiled.value_and_slopes, q.mu, q.factor)
        return float(value) - q.kl(), d_mu, np.tril(d_factor)

    def elbo(self, q: Gaussian) -> float:
        """ELBO alone."""
        return float(self._sum(self.compiled.value, q.mu, q.factor)) - q.kl()

    def gauss_newton(self, v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Log posterior of the weights at `v`, its gradient, and the Gauss-Newton precision."""
        value, slope, information = self._sum(self.compiled.gauss_newton, v)
        return float(value) - 0.5 * float(v @ v), slope - v, information + np.eye(len(v))

    def parameter_slopes(self, q: Gaussian) -> Parameters:
        """Partial gradient of the ELBO in the parameters; the total one where `q` is optimal."""
        total = None
        for chunk in self.problem.chunks:
            part = self.compiled.parameter_slopes(self.spec, self.parameters, self.jitter, chunk, q.mu, q.factor)
            total = part if total is None else jax.tree.map(jnp.add, total, part)
        return jax.tree.map(np.asarray, total)
