"""Individuals of a chunk where one pass is made over them: features, latent values and residuals, for compiling.

Fits stage a chunk once for many `q`, and then differentiate (`moments.stage_pixels`). A prediction has one `q` and no
slopes: rows go through all products a block at a time, near the processor, and covariances with the drawn individuals
of a bag are never formed, since only a sum over them is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from vbagg.chunks import Chunk, Tiles
from vbagg.features import Basis, FeatureMap, features, leave_residual, residual_diagonal, residual_kernel
from vbagg.moments import FAST, Latent, Pixels, WithDrawn, pair_weights, take
from vbagg.triangular import compiled_times_lower, compiled_times_upper

Array = Any
ROWS = 1024
"""Rows of a block."""
PAIRS = 1 << 16
"""Pairs of rows of a block."""


def stage_for_prediction(
    feature_map: FeatureMap, basis: Basis, chunk: Chunk, mu: Array, factor: Array, cross: bool
) -> tuple[Pixels, WithDrawn | None]:
    """What `stage_pixels` gives for a chunk of single individuals, with latent values by weights `N(mu, C C^T)`.

    Features stay in the precision of rows. With `cross` also what tells the covariances of all individuals with the
    drawn ones of their bag, if some are drawn.
    """
    shape, inside = chunk.weight.shape, leave_residual(feature_map, basis)
    fast_mu, fast_factor = mu.astype(FAST), factor.astype(FAST)

    def of_rows(X: Array) -> tuple[Array, ...]:
        A = features(feature_map, basis, X, compiled_times_upper)
        fast = A.astype(FAST)
        F = compiled_times_lower(fast, fast_factor)
        own = residual_diagonal(feature_map, basis, X, A).astype(FAST)
        return A, F, own, fast @ fast_mu, jnp.sum(F**2, axis=-1), jnp.sum(inside * A**2, axis=-1)

    found = _in_blocks(of_rows, ROWS, chunk.X.reshape(-1, chunk.X.shape[-1]))
    A, F, own, by_weights, explained, explained_prior = (part.reshape(*shape, *part.shape[1:]) for part in found)
    block, with_drawn = None, None
    if chunk.residual != "diagonal":
        X, drawn = take(chunk.X, chunk), take(A, chunk)
        masked = drawn * inside.astype(A.dtype)
        if chunk.residual == "subset" and cross:
            kernel = _kernel(feature_map, basis, chunk.X, X, Tiles.of(chunk).owner)
            with_drawn, block = WithDrawn(kernel, masked, explained_prior), take(kernel, chunk)
        else:
            block = _kernel(feature_map, basis, X, X, jnp.arange(len(X)))
        # a small difference of large numbers: in the precision of the rows, then rounded
        block = (block - masked @ drawn.mT).astype(FAST)
        at = jnp.arange(block.shape[1])
        block = block.at[:, at, at].set(take(own, chunk))
    weights = pair_weights(chunk).astype(FAST) if chunk.residual == "subset" else None
    weight, known = chunk.weight.astype(FAST), chunk.known.astype(FAST)
    latent = Latent(known + by_weights, explained, F)
    staged = Pixels(A, known, weight, own, own, block, weights, chunk.drawn, chunk.tiles, chunk.residual, latent)
    return staged, with_drawn


def _kernel(feature_map: FeatureMap, basis: Basis, X: Array, others: Array, owner: Array) -> Array:
    """Covariances (k, i, j) of rows X (k, i) with others (b, j) of their `owner` (k), before landmarks explain them."""
    size = max(PAIRS // (X.shape[1] * others.shape[1]), 1)
    return _in_blocks(lambda one, at: residual_kernel(feature_map, basis, one, others[at]), size, X, owner)


def _in_blocks(function: Callable[..., Any], size: int, *arrays: Array) -> Any:
    """Results of a function of at most `size` rows at a time; blocks are equal, and filled up with the last row."""
    n = len(arrays[0])
    count = -(-n // size)
    if count == 1:
        return function(*arrays)
    size = -(-n // count)

    def blocks(array: Array) -> Array:
        padding = [(0, count * size - n)] + [(0, 0)] * (array.ndim - 1)
        return jnp.pad(array, padding, mode="edge").reshape(count, size, *array.shape[1:])

    found = jax.lax.map(lambda block: function(*block), tuple(map(blocks, arrays)))
    return jax.tree.map(lambda part: part.reshape(count * size, *part.shape[2:])[:n], found)
