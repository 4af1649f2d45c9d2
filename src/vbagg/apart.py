"""How far the latent values of individuals are from the mean of their bag: variances before and after learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from vbagg.chunks import Tiles
from vbagg.moments import FAST, Pixels, WithDrawn, residual_with_total, sum_tiles

Array = Any


@dataclass(frozen=True)
class Apart:
    """Variances (t, n) of what `f` of each individual is above the weighted mean of its bag."""

    prior: Array
    """Of the part that the weights explain, by their prior."""
    weights: Array
    """Of the same by their posterior."""
    residual: Array
    """Of the residual, by the pairs that are taken."""


def variances_apart(staged: Pixels, with_drawn: WithDrawn | None) -> Apart:
    """Of staged individuals whose latent values are known.

    Weights explain distances between features, so that no pair of individuals is looked at. The residual needs pairs:
    all of a bag, or an unbiased estimate from those that were drawn, as its totals do.
    """
    assert staged.latent is not None
    assert staged.latent.F is not None
    owner, total = Tiles.of(staged).owner, sum_tiles(staged.tiles, jnp.sum(staged.weight, axis=-1))
    share = staged.weight / jnp.where(total > 0, total, 1.0)[owner, None]

    def from_mean(rows: Array) -> Array:
        mean = sum_tiles(staged.tiles, jnp.einsum("tn,tnm->tm", share, rows))
        return jnp.sum((rows - mean[owner, None]) ** 2, axis=-1).astype(FAST)

    # Var(r_i - sum_j u_j r_j) = R_ii - 2 sum_j u_j R_ij + sum_jk u_j u_k R_jk
    with_mean = residual_with_total(staged, share, with_drawn)
    of_mean = sum_tiles(staged.tiles, jnp.sum(share * with_mean, axis=-1))
    residual = jnp.maximum(staged.own_residual - 2 * with_mean + of_mean[owner, None], 0.0)
    return Apart(from_mean(staged.A), from_mean(staged.latent.F), residual)
