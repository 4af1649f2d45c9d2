"""Joint draws of bag totals from `q`: the weights `v` are shared by all bags, residuals belong to a bag."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from vbagg.links import Link
from vbagg.moments import FAST, Pixels, bag_mean, marginals, residual_share

Array = jax.Array
BLOCK = 16


def draw_totals(
    link: Link, staged: Pixels, mu: Array, factor: Array, seed: int | Array, n_draws: int, antithetic: bool = True
) -> tuple[Array, Array]:
    """Exact means (b) and draws (s, b) of the totals; the same `seed` gives the same `v` in every chunk.

    Exact residual: joint draws of all individuals of a bag. Otherwise the residual of an individual is integrated
    out and the bag's share of it enters as a log-normal factor with the variance of the pair sums.
    """
    mean, variance, F = marginals(staged, mu, factor)
    M = bag_mean(link, staged, mean, variance)
    exact = staged.residual == "exact"
    own_factor = _residual_factor(staged) if exact else None
    share = None if exact else residual_share(staged, link.slope(mean, variance))
    half = BLOCK // 2 if antithetic else BLOCK

    def mirrored(key: Array, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
        eps = jax.random.normal(key, (*shape, half), dtype)
        return jnp.concatenate([eps, -eps], axis=-1) if antithetic else eps

    def block(key: Array) -> Array:
        shared, own = jax.random.split(key)
        f = mean[..., None] + F @ mirrored(shared, F.shape[-1:], FAST)
        if own_factor is not None:
            rates = link.value(f + own_factor @ mirrored(own, F.shape[:2], FAST))
        else:
            rates = link.mean(f, staged.residual_diagonal[..., None])
        totals = jnp.einsum("bn,bns->sb", staged.weight.astype(jnp.float64), rates.astype(jnp.float64))
        if share is not None:
            spread = jnp.log1p(jnp.maximum(share, 0.0) / M**2)
            z = mirrored(own, M.shape, jnp.float64).T
            totals = totals * jnp.exp(jnp.sqrt(spread) * z - spread / 2)
        return totals

    n_blocks = -(-n_draws // BLOCK)
    totals = jax.lax.map(block, jax.random.split(jax.random.key(seed), n_blocks))
    return M, totals.reshape(-1, totals.shape[-1])[:n_draws]


def _residual_factor(staged: Pixels) -> Array:
    """Cholesky factor of each bag's residual covariance; padding is made independent.

    The jitter covers the rounding of float32 differences of kernel values.
    """
    R = staged.block_residual.astype(jnp.float64)
    inside = staged.weight > 0
    R = jnp.where(inside[:, :, None] & inside[:, None, :], R, 0.0)
    norm = jnp.sum(staged.A[..., 1:] ** 2, axis=-1) + staged.residual_diagonal
    rounding = 1e-6 * R.shape[-1] ** 0.5 * jnp.max(norm, axis=1).astype(jnp.float64)
    jitter = jnp.where(inside, 1e-5 * staged.residual_diagonal + rounding[:, None], 1.0)
    return jnp.linalg.cholesky(R + jax.vmap(jnp.diag)(jitter)).astype(FAST)
