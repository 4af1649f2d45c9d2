"""Distributions that stand for a bag's total, matched to its mean `M` and variance `V`: nodes for expectations.

Each link has one (MATH section 4): normal for the identity, log-normal for exp, gamma for square, beta for logistic.
Nodes and weights are differentiable in `M` and `V`, so that `sum(weight * g(T))` is an objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from vbagg import special

Array = jax.Array
HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
HERMITE_WEIGHTS = HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()
GRID = np.linspace(-1.0, 1.0, 96)
DEPTH = 30.0
"""Densities are followed down to exp(-30) of their peak."""
LEAST_LOGIT = -700.0
"""Below it a probability is no longer a number."""


@dataclass(frozen=True)
class Matched:
    """A family of distributions of a total; `M` and `V` are its mean and variance."""

    def nodes(self, M: Array, V: Array) -> tuple[Array, Array]:
        """Values of the total and their weights, along a new last axis; weights sum to one."""
        raise NotImplementedError

    def expected_log(self, M: Array, V: Array) -> Array:
        """`E log T`."""
        T, weight = self.nodes(M, V)
        return jnp.sum(weight * jnp.log(T), axis=-1)

    def expected_log1p(self, M: Array, V: Array, c: Array) -> Array:
        """`E log(1 + c T)`."""
        T, weight = self.nodes(M, V)
        return jnp.sum(weight * jnp.log1p(c[..., None] * T), axis=-1)


class MatchedNormal(Matched):
    """Normal."""

    def nodes(self, M: Array, V: Array) -> tuple[Array, Array]:  # noqa: D102
        return M[..., None] + jnp.sqrt(V)[..., None] * HERMITE_NODES, jnp.asarray(HERMITE_WEIGHTS)


class MatchedLogNormal(Matched):
    """Log-normal: exact for one individual, and for individuals that vary together."""

    def nodes(self, M: Array, V: Array) -> tuple[Array, Array]:  # noqa: D102
        spread = jnp.log1p(V / M**2)
        log_T = (jnp.log(M) - spread / 2)[..., None] + jnp.sqrt(spread)[..., None] * HERMITE_NODES
        return jnp.exp(log_T), jnp.asarray(HERMITE_WEIGHTS)

    def expected_log(self, M: Array, V: Array) -> Array:  # noqa: D102
        return jnp.log(M) - 0.5 * jnp.log1p(V / M**2)


class MatchedGamma(Matched):
    """Gamma of shape `M^2 / V`: exact for sums of squares of independent standard normals."""

    def nodes(self, M: Array, V: Array) -> tuple[Array, Array]:  # noqa: D102
        shape = M**2 / V
        # density of u = log(T / M): exp(shape (u - exp(u) + 1)) of its peak, which is at zero
        fixed = jax.lax.stop_gradient(shape)
        u, log_step = _grid(*_gamma_reach(fixed), fixed)
        return M[..., None] * jnp.exp(u), jax.nn.softmax(shape[..., None] * (u - jnp.expm1(u)) + log_step, axis=-1)

    def expected_log(self, M: Array, V: Array) -> Array:  # noqa: D102
        return jnp.log(M) + special.digamma_minus_log(M**2 / V)

    def expected_log1p(self, M: Array, V: Array, c: Array) -> Array:  # noqa: D102
        return special.gamma_expectation_log1p(M, M**2 / V, c)


class MatchedBeta(Matched):
    """Beta; its variance is kept below `M (1 - M)`, beyond which there is none."""

    def nodes(self, M: Array, V: Array) -> tuple[Array, Array]:  # noqa: D102
        size = beta_size(M, V)
        first, second = M * size, (1 - M) * size
        mode = jax.lax.stop_gradient(jnp.log(M) - jnp.log1p(-M))
        # density of u = logit T: exp(first u - size log(1 + exp u)), falling like exp(first u) and exp(-second u)
        left, right, curvature = (jax.lax.stop_gradient(value) for value in _beta_reach(M, size))
        u, log_step = _grid(left, right, curvature)
        u = mode[..., None] + u
        log_density = first[..., None] * jax.nn.log_sigmoid(u) + second[..., None] * jax.nn.log_sigmoid(-u)
        return jax.nn.sigmoid(jnp.maximum(u, LEAST_LOGIT)), jax.nn.softmax(log_density + log_step, axis=-1)


def _grid(left: Array, right: Array, curvature: Array) -> tuple[Array, Array]:
    """Nodes around a peak at zero, and the logarithm of their distances: narrow there, ever wider to both ends.

    `curvature` is that of the logarithm of the density at its peak; kinks of the tails have a width of about one.
    """
    width = jnp.minimum(1.0, 1 / jnp.sqrt(curvature))
    low, high = jnp.arcsinh(left / width), jnp.arcsinh(right / width)
    t = ((low + high)[..., None] + (high - low)[..., None] * GRID) / 2
    return width[..., None] * jnp.sinh(t), jnp.log(jnp.cosh(t))


def beta_size(M: Array, V: Array) -> Array:
    """`alpha + beta` of the beta distribution with mean `M` and variance `V`, kept below `M (1 - M)`."""
    limit = M * (1 - M)
    return limit / jnp.minimum(V, 0.99 * limit) - 1


def _beta_reach(M: Array, size: Array) -> tuple[Array, Array, Array]:
    """Where the logarithm of the density of `logit T` has fallen by `DEPTH`, from its peak, and its curvature there."""
    first, second = M * size, (1 - M) * size
    curvature = first * (1 - M)
    outer = jnp.sqrt(2 * DEPTH / curvature) + DEPTH / curvature
    # w above the peak it has fallen by size log(1 - M + M exp(w)) - first w >= second w + size log M
    left = jnp.minimum(outer, (DEPTH - size * jnp.log1p(-M)) / first)
    right = jnp.minimum(outer, (DEPTH - size * jnp.log(M)) / second)
    return -left, right, curvature


def _gamma_reach(shape: Array) -> tuple[Array, Array]:
    """Where `shape (exp(u) - 1 - u)` has reached `DEPTH` on both sides of zero."""
    ratio = DEPTH / shape
    # exp(u) - 1 - u is at least u^2/(2 - u) left of zero, and at least u^2/2 and exp(u)/4 - 1 right of it
    left = -(ratio + jnp.sqrt(ratio * (ratio + 8.0))) / 2
    right = jnp.minimum(jnp.sqrt(2 * ratio), jnp.log(4 * (ratio + 1.0)))
    return left, right
