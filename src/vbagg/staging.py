"""Features and residuals of chunks for predictions, where few passes are made over chunks of many shapes.

Kernels are evaluated in blocks: rows with landmarks, and rows with other rows of their bag. Whatever the chunks, blocks
have few shapes, so that the functions that take most time are compiled well, and once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from vbagg.chunks import TILE, Chunk, Tiles, round_up
from vbagg.compiling import jit
from vbagg.features import Basis, FeatureMap, features, residual_columns, residual_diagonal, residual_kernel
from vbagg.moments import FAST, Pixels
from vbagg.threads import in_threads

ROWS = 1024
"""Rows of a block."""
PAIRS = 1 << 16
"""Pairs of rows of a block."""


def stage_for_prediction(
    feature_map: FeatureMap, basis: Basis, chunk: Chunk, cross: bool
) -> tuple[Pixels, np.ndarray | None]:
    """What `stage_pixels` gives for a chunk of single individuals, but for the weights of pairs.

    With `cross` also the residual covariances (t, n, j) of all individuals with the drawn ones of their bag, if some
    are drawn. Features of padding are zero.
    """
    t, n, d = chunk.X.shape
    X, inside = chunk.X.reshape(t * n, d), np.flatnonzero(chunk.rows >= 0)
    size = min(ROWS, 1 << (len(inside) - 1).bit_length())
    known_A, known_diagonal = _by_blocks(partial(_row_features, feature_map, basis), size, X[inside])
    A, diagonal = np.zeros((t * n, known_A.shape[1]), X.dtype), np.zeros(t * n, X.dtype)
    A[inside], diagonal[inside] = known_A, known_diagonal
    block, with_drawn = None, None
    if chunk.residual != "diagonal":
        every = np.arange(t * n).reshape(t, n)
        tiles = Tiles.of(chunk)
        taken = every if chunk.drawn is None else every[tiles.first, :1] + chunk.drawn
        pairs = _Pairs(feature_map, basis, X, A)
        if cross and chunk.drawn is not None:
            with_drawn = pairs.of(every, taken[tiles.owner])
            block = with_drawn.reshape(t * n, -1)[taken]
        else:
            block = pairs.of(taken, taken)
        at = np.arange(taken.shape[1])
        block[:, at, at] = diagonal[taken]
    fast: Callable[[np.ndarray], Any] = partial(np.asarray, dtype=FAST)
    own = fast(diagonal).reshape(t, n)
    staged = Pixels(
        fast(A).reshape(t, n, -1),
        fast(chunk.known),
        fast(chunk.weight),
        own,
        own,
        block,
        None,
        chunk.drawn,
        chunk.tiles,
        chunk.residual,
    )
    return staged, with_drawn


@jit(static_argnums=0)
def _row_features(feature_map: FeatureMap, basis: Basis, X: Any) -> tuple[jax.Array, jax.Array]:
    A = features(feature_map, basis, X)
    return A, residual_diagonal(feature_map, basis, X, A)


@jit(static_argnums=0)
def _kernel(feature_map: FeatureMap, basis: Basis, X: Any, X2: Any) -> jax.Array:
    return residual_kernel(feature_map, basis, X, X2)


class _Pairs:
    """Residual covariances between rows."""

    def __init__(self, feature_map: FeatureMap, basis: Basis, X: np.ndarray, A: np.ndarray) -> None:
        self.X, self.columns = X, residual_columns(feature_map, basis, A)
        self.kernel = partial(_kernel, feature_map, basis)

    def of(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """`R_ij` (k, i, j) of individuals at the positions `one` (k, i) with others at `other` (k, j)."""
        k, i = one.shape
        width = TILE if i % TILE == 0 else i
        one, other = one.reshape(-1, width), np.repeat(other, i // width, axis=0)
        size = min(max(PAIRS // (width * other.shape[1]), 1), round_up(len(one), 1))
        (R,) = _by_blocks(self._block, size, one, other)
        return R.reshape(k, i, -1)

    def _block(self, one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray]:
        # a small difference of large numbers: in their precision, then rounded
        kernel = self.kernel(self.X[one], self.X[other])
        explained = self.columns[one] @ self.columns[other].swapaxes(-2, -1)
        return ((np.asarray(kernel) - explained).astype(FAST),)


def _by_blocks(function: Callable[..., tuple[Any, ...]], size: int, *tables: np.ndarray) -> list[np.ndarray]:
    """Tables that a function makes of others, so many rows at a time; the last block repeats the last row."""
    n = len(tables[0])

    def block(start: int) -> list[np.ndarray]:
        rows = np.minimum(np.arange(start, start + size), n - 1)
        return [np.asarray(found) for found in function(*(table[rows] for table in tables))]

    # the first alone, since it may have to be compiled
    parts = [block(0), *in_threads(block, range(size, n, size))]
    return [np.concatenate(found)[:n] for found in zip(*parts, strict=True)]
