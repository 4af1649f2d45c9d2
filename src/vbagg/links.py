"""Links: the rate `Psi(f)` of an individual and its moments when `f` is Gaussian.

By Price's theorem the covariance of two rates is

    cov(Psi(f_i), Psi(f_j)) = sum_k E Psi^(k)(f_i) E Psi^(k)(f_j) S_ij^k / k!

so the slope `E Psi'(f)` carries the first order of every link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from vbagg import special
from vbagg.errors import unknown_name

Array = jax.Array


@dataclass(frozen=True)
class Link:
    """A map from the latent function to a rate. Methods are elementwise; `m`, `s` are mean and variance of `f`."""

    name: ClassVar[str]

    def value(self, f: Array) -> Array:
        """`Psi(f)`."""
        raise NotImplementedError

    def mean(self, m: Array, s: Array) -> Array:
        """`E Psi(f)`."""
        raise NotImplementedError

    def slope(self, m: Array, s: Array) -> Array:
        """`E Psi'(f)`."""
        raise NotImplementedError

    def expected_log(self, m: Array, s: Array) -> Array:
        """`E log Psi(f)`, the `xi` of Lemma 1."""
        raise NotImplementedError(f"the {self.name} link may be negative: it has no expected logarithm")

    def covariance(self, slope_i: Array, slope_j: Array, s: Array) -> Array:
        """Covariance of two rates, `s` the covariance of their latent values; first order unless exact is known."""
        return slope_i * slope_j * s

    def bag_variance(self, weight: Array, slope: Array, S: Array) -> Array:
        """Sum of `w_i w_j covariance(i, j)` over all pairs of each bag, from latent covariances `S` (b, n, n)."""
        return _quadratic(weight * slope, S)

    def total_covariance(self, mean_a: Array, mean_c: Array, first_order: Array) -> Array:
        """Covariance of the totals of two bags from its first order: exact where each bag is one individual."""
        return first_order


def _quadratic(u: Array, S: Array) -> Array:
    """`u^T S u` of each bag; as a product with a vector its gradient never forms `u u^T`."""
    return jnp.sum(u * jnp.einsum("bij,bj->bi", S, u), axis=-1)


@dataclass(frozen=True)
class Identity(Link):
    """`Psi(f) = f`; moments MATH (8)."""

    name = "identity"

    def value(self, f: Array) -> Array:  # noqa: D102
        return f

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return m

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return jnp.ones_like(m)


@dataclass(frozen=True)
class Exp(Link):
    """`Psi(f) = exp(f)`; moments MATH (6)."""

    name = "exp"

    def value(self, f: Array) -> Array:  # noqa: D102
        return jnp.exp(f)

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return jnp.exp(m + s / 2)

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return jnp.exp(m + s / 2)

    def expected_log(self, m: Array, s: Array) -> Array:  # noqa: D102
        return m

    def covariance(self, slope_i: Array, slope_j: Array, s: Array) -> Array:  # noqa: D102
        return slope_i * slope_j * jnp.expm1(s)

    def total_covariance(self, mean_a: Array, mean_c: Array, first_order: Array) -> Array:  # noqa: D102
        return mean_a * mean_c * jnp.expm1(first_order / (mean_a * mean_c))

    def bag_variance(self, weight: Array, slope: Array, S: Array) -> Array:  # noqa: D102
        return _quadratic(weight * slope, jnp.expm1(S))


@dataclass(frozen=True)
class Square(Link):
    """`Psi(f) = f^2`; moments MATH (7)."""

    name = "square"

    def value(self, f: Array) -> Array:  # noqa: D102
        return f**2

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return m**2 + s

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return 2 * m

    def expected_log(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_log_square(m, s)

    def covariance(self, slope_i: Array, slope_j: Array, s: Array) -> Array:  # noqa: D102
        return slope_i * slope_j * s + 2 * s**2

    def total_covariance(self, mean_a: Array, mean_c: Array, first_order: Array) -> Array:  # noqa: D102
        # 4 m m' S + 2 S^2 with m^2 taken as the mean
        return first_order + first_order**2 / (8 * mean_a * mean_c)

    def bag_variance(self, weight: Array, slope: Array, S: Array) -> Array:  # noqa: D102
        return _quadratic(weight * slope, S) + 2 * _quadratic(weight, S**2)


@dataclass(frozen=True)
class Logistic(Link):
    """`Psi(f) = 1 / (1 + exp(-f))`; means by one-dimensional quadrature, covariance to first order."""

    name = "logistic"

    def value(self, f: Array) -> Array:  # noqa: D102
        return jax.nn.sigmoid(f)

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_sigmoid(m, s)

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_sigmoid_slope(m, s)

    def expected_log(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_log_sigmoid(m, s)


LINKS: dict[str, Link] = {link.name: link for link in (Identity(), Exp(), Square(), Logistic())}


def get_link(name: str) -> Link:
    """Return the link called `name`; an unknown name lists the known ones."""
    if name not in LINKS:
        raise unknown_name("link", name, LINKS)
    return LINKS[name]
