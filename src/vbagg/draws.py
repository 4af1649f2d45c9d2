"""Joint draws of bag totals from `q`: the weights `v` are shared by all bags, residuals belong to a bag."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from vbagg.links import Link
from vbagg.moments import FAST, Pixels, marginals, sum_tiles

Array = jax.Array
BLOCK = 16


def draw_means(link: Link, staged: Pixels, mu: Array, factor: Array, seed: int, n_draws: int) -> Array:
    """Antithetic draws (s, b) of the totals' means given the weights, the residual integrated out."""
    mean, _, F = marginals(staged, mu, factor)

    def block(key: Array) -> Array:
        eps = jax.random.normal(key, (F.shape[-1], BLOCK // 2), FAST)
        f = mean[..., None] + F @ jnp.concatenate([eps, -eps], axis=-1)
        return _totals(staged, link.mean(f, staged.residual_diagonal[..., None]))

    return _in_blocks(block, seed, n_draws)


def _totals(staged: Pixels, rates: Array) -> Array:
    """Weighted sums (s, b) of rates (t, n, s)."""
    totals = jnp.einsum("tn,tns->ts", staged.weight.astype(jnp.float64), rates.astype(jnp.float64))
    return sum_tiles(staged.tiles, totals).T


def _in_blocks(block: Callable[[Array], Array], seed: int | Array, n_draws: int) -> Array:
    keys = jax.random.split(jax.random.key(seed), -(-n_draws // BLOCK))
    draws = jax.lax.map(block, keys)
    return draws.reshape(-1, draws.shape[-1])[:n_draws]
