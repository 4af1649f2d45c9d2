"""Joint draws of bag totals from `q`: the weights `v` are shared by all bags, residuals belong to a bag."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from vbagg.links import Link
from vbagg.moments import FAST, Pixels, bag_mean, marginals, pixel_moments, residual_share, sum_tiles

Array = jax.Array
BLOCK = 16


def draw_totals(
    link: Link,
    staged: Pixels,
    mu: Array,
    factor: Array,
    seed: int | Array,
    n_draws: int,
    antithetic: bool = True,
    stream: int | Array = 0,
) -> tuple[Array, Array]:
    """Exact means (b) and draws (s, b) of the totals.

    The same `seed` gives the same `v` in every chunk; another `stream` gives other residuals. An exact residual means
    joint draws of all individuals of a bag. Otherwise the residual of an individual is integrated out, and the bag's
    share of it is added to the total as one number.
    """
    mean, variance, F = marginals(staged, mu, factor)
    M = bag_mean(link, staged, mean, variance)
    own_factor = _residual_factor(staged) if staged.residual == "exact" else None
    add_share = None if own_factor is not None else _bag_residual(link, staged, mu, factor, mean, variance, F)
    half = BLOCK // 2 if antithetic else BLOCK

    def mirrored(key: Array, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
        eps = jax.random.normal(key, (*shape, half), dtype)
        return jnp.concatenate([eps, -eps], axis=-1) if antithetic else eps

    def block(key: Array) -> Array:
        shared, own = jax.random.split(key)
        own = jax.random.fold_in(own, stream)
        f = mean[..., None] + F @ mirrored(shared, F.shape[-1:], FAST)
        if own_factor is not None:
            rates = link.value(f + own_factor @ mirrored(own, F.shape[:2], FAST))
        else:
            rates = link.mean(f, staged.residual_diagonal[..., None])
        totals = jnp.einsum("tn,tns->ts", staged.weight.astype(jnp.float64), rates.astype(jnp.float64))
        totals = sum_tiles(staged.tiles, totals).T
        if add_share is not None:
            totals = add_share(totals, mirrored(own, M.shape, jnp.float64).T)
        return totals

    n_blocks = -(-n_draws // BLOCK)
    totals = jax.lax.map(block, jax.random.split(jax.random.key(seed), n_blocks))
    return M, totals.reshape(-1, totals.shape[-1])[:n_draws]


def _bag_residual(
    link: Link, staged: Pixels, mu: Array, factor: Array, mean: Array, variance: Array, F: Array
) -> Callable[[Array, Array], Array]:
    """Function that gives totals (s, b) the residual's variance: a log-normal factor for positive rates, else a sum."""
    share = residual_share(link, staged, link.slope(mean, variance), variance, F, factor)
    if link.name == "identity":
        return lambda totals, z: totals + jnp.sqrt(share) * z
    M, V = pixel_moments(link, staged, mu, factor)
    if link.name == "logistic":
        return lambda totals, z: jnp.clip(totals + jnp.sqrt(share) * z, 1e-9, 1 - 1e-9)
    spread = jnp.log1p(share / (M**2 + jnp.maximum(V - share, 0.0)))
    return lambda totals, z: totals * jnp.exp(jnp.sqrt(spread) * z - spread / 2)


def _residual_factor(staged: Pixels) -> Array:
    """Cholesky factor of each bag's residual covariance; padding is made independent.

    The jitter covers the rounding of `R` to float32.
    """
    R = staged.block_residual.astype(jnp.float64)
    inside = staged.weight > 0
    R = jnp.where(inside[:, :, None] & inside[:, None, :], R, 0.0)
    largest = jnp.max(staged.residual_diagonal, axis=1).astype(jnp.float64)
    jitter = jnp.where(inside, 1e-6 * R.shape[-1] ** 0.5 * largest[:, None] + 1e-14, 1.0)
    return jnp.linalg.cholesky(R + jax.vmap(jnp.diag)(jitter)).astype(FAST)
