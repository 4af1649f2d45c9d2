"""Rates of single individuals from their features: by all members of an average, compiled for blocks of rows.

One compiled function goes from the features of a block to means and variances of `f` by every member, or on to mean,
sd, quantiles and exceedances of the averaged rate. Nothing goes through the host in between, so that it runs on an
accelerator as it is (`docs/accelerators.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vbagg.compiling import jit
from vbagg.elbo import Spec
from vbagg.features import Basis, combine_features, features, residual_diagonal
from vbagg.laws import Summary
from vbagg.laws.arrays import COMPILED
from vbagg.laws.latent_mixtures import mixed_quantile, mixed_tail
from vbagg.links import Link
from vbagg.triangular import compiled_squares_lower, compiled_times_upper

Array = Any
ROWS = 2048
"""Rows of a block, whose features stay near the processor."""
MANY = 50_000
"""Rows from which a summary is compiled as a whole where the processor is the device: reading the larger function from
the cache takes a third of a second of processor time, and later it is as quick as the laws."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Members:
    """Bases and posteriors of the weights of one or more sets of parameters: the first axis (k) of every array."""

    basis: Basis
    mu: Array
    """(k, m)"""
    factor: Array
    """(k, m, m), lower triangular."""

    @classmethod
    def of(cls, states: Sequence[tuple[Basis, np.ndarray, np.ndarray]]) -> Members:
        """From bases, means and factors, on the device where compiled functions run."""
        parts = [cls(*state) for state in states]
        return jax.device_put(jax.tree.map(lambda *arrays: np.stack([np.asarray(a) for a in arrays]), *parts))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixing:
    """How rates of members are averaged."""

    weight: Array
    """(k) of the members, with sum one."""
    white: Array
    """(k) variance of an individual effect over which rates are averaged."""
    scale: Array
    """What rates are multiplied by."""


def marginals(spec: Spec, single: bool, members: Members, X: Array, known: Array) -> tuple[Array, Array]:
    """Mean and variance (k, n) of `f` at rows by each member, the variance in single precision if so wanted."""

    def by_one(member: Members) -> tuple[Array, Array]:
        rows = X.astype(jnp.float32) if single else X
        A = features(spec.feature_map, member.basis, rows, compiled_times_upper)
        own = residual_diagonal(spec.feature_map, member.basis, rows, A)
        variance = own + compiled_squares_lower(A, member.factor.astype(A.dtype))
        mean = combine_features(spec.feature_map, member.basis, X, member.mu) if single else A @ member.mu
        return known + mean, variance.astype(known.dtype)

    return jax.lax.map(by_one, members)


def mixed_rates(
    link: Link, mixing: Mixing, mean: Array, variance: Array, levels: Array, thresholds: Array
) -> tuple[Array, Array, Array, Array]:
    """Mean, sd (n), quantiles and exceedances (levels or thresholds, n) of rates `Psi(f)`, averaged over members.

    Mean and variance of `f` (k, n) are those of individuals with their own effects.
    """
    weight, white = mixing.weight[:, None], mixing.white[:, None]
    sd = jnp.sqrt(jnp.maximum(variance - white, 0.0))
    mean = jnp.where(white > 0, link.latent(link.mean(mean, white)), mean)
    means, sds = link.rate_moments(mean, sd)
    rate = jnp.sum(weight * means, axis=0)
    spread = jnp.sqrt(jnp.sum(weight * (sds**2 + (means - rate) ** 2), axis=0))
    at = jnp.abs(mean) if link.folded else mean

    def quantile(level: Array) -> Array:
        return link.value(mixed_quantile(COMPILED, mean, sd, mixing.weight, level, link.folded))

    def exceedance(threshold: Array) -> Array:
        f = link.latent(threshold / mixing.scale)
        found = mixed_tail(COMPILED, at, sd, mixing.weight, f, True, link.folded)
        # a rate is above all values that are no rates
        return jnp.where(threshold / mixing.scale < link.least_rate, 1.0, found)

    quantiles, above = jax.lax.map(quantile, levels), jax.lax.map(exceedance, thresholds)
    return mixing.scale * rate, mixing.scale * spread, mixing.scale * quantiles, above


def summary_of_rows(
    spec: Spec,
    single: bool,
    members: Members,
    mixing: Mixing,
    X: Array,
    known: Array,
    levels: Array,
    thresholds: Array,
) -> tuple[Array, Array, Array, Array]:
    """`mixed_rates` of rows from their features: what is compiled for a block."""
    mean, variance = marginals(spec, single, members, X, known)
    return mixed_rates(spec.link, mixing, mean, variance, levels, thresholds)


_marginals = jit(static_argnums=(0, 1))(marginals)
_summary = jit(static_argnums=(0, 1))(summary_of_rows)


def row_marginals(
    spec: Spec, members: Members, X: np.ndarray, known: np.ndarray, single: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (k, n) of `f` at each row by each member."""
    mean, variance = by_blocks(lambda *block: _marginals(spec, single, members, *block), X, known)
    return mean, variance


def row_summary(
    spec: Spec,
    members: Members,
    mixing: Mixing,
    X: np.ndarray,
    known: np.ndarray,
    levels: np.ndarray,
    thresholds: np.ndarray,
    single: bool = False,
) -> Summary:
    """Mean, sd, quantiles and exceedances of the averaged rate at each row."""
    asked = jnp.asarray(levels, float), jnp.asarray(thresholds, float)
    return Summary(*by_blocks(lambda *block: _summary(spec, single, members, mixing, *block, *asked), X, known))


def compiled_as_a_whole(n_rows: int) -> bool:
    """Whether so many rows are summed up in one compiled function, rather than by the laws of their marginals."""
    return n_rows >= MANY or jax.default_backend() != "cpu"


def by_blocks(function: Callable[..., tuple[Array, ...]], X: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Results of a compiled function of blocks of rows, and of columns beside them, joined along the last axis."""
    size = min(ROWS, 1 << max(len(X) - 1, 1).bit_length())
    parts = []
    for start in range(0, max(len(X), 1), size):
        rows = slice(start, start + size)
        short = size - len(X[rows])
        block = np.pad(X[rows], ((0, short), (0, 0)), mode="edge") if len(X) else np.zeros((size, X.shape[1]))
        # blocks are queued, and fetched when all are
        parts.append(function(block, *(np.pad(column[rows], (0, short)) for column in columns)))
    return [np.concatenate([np.asarray(p) for p in own], axis=-1)[..., : len(X)] for own in zip(*parts, strict=True)]
