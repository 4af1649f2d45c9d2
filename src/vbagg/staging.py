"""Features and residuals of chunks where few passes are made over them: compiled kernels, products by NumPy.

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
from vbagg.features import (
    Basis,
    FeatureMap,
    feature_count,
    feature_parts,
    part_inverses,
    prior_variances,
    residual_columns,
    residual_kernel,
)
from vbagg.moments import FAST, Pixels
from vbagg.triangular import times_upper

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
    t, n, _ = chunk.X.shape
    rows = _Rows(feature_map, basis, chunk)
    block, with_drawn = None, None
    if chunk.residual == "exact":
        block = rows.among_tiles()
    elif chunk.residual == "subset" and cross:
        with_drawn = rows.with_drawn()
        block = with_drawn.reshape(t * n, -1)[rows.taken]
    elif chunk.residual == "subset":
        block = rows.among_drawn()
    if block is not None:
        at = np.arange(block.shape[1])
        block[:, at, at] = rows.diagonal[rows.taken]
    fast: Callable[[np.ndarray], Any] = partial(np.asarray, dtype=FAST)
    own = fast(rows.diagonal).reshape(t, n)
    staged = Pixels(
        fast(rows.A).reshape(t, n, -1),
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


class _Rows:
    """Features `A` (t n, m) and residual variances `diagonal` of all rows of a chunk; covariances of some."""

    def __init__(self, feature_map: FeatureMap, basis: Basis, chunk: Chunk) -> None:
        self.feature_map, self.basis, self.tiles = feature_map, basis, Tiles.of(chunk)
        t, n, d = chunk.X.shape
        self.X, self.every = chunk.X.reshape(t * n, d), np.arange(t * n).reshape(t, n)
        self.taken = self.every if chunk.drawn is None else self.every[self.tiles.first, :1] + chunk.drawn
        inside = np.flatnonzero(chunk.rows >= 0)
        inverses = [None if C is None else np.asarray(C, self.X.dtype).T for C in part_inverses(feature_map, basis)]
        self.A = np.zeros((t * n, feature_count(basis.landmarks, feature_map)), self.X.dtype)
        self.diagonal = np.zeros(t * n, self.X.dtype)
        size = min(ROWS, 1 << (len(inside) - 1).bit_length())
        for at in _blocks(inside, size):
            parts, variances = _kernels_with_landmarks(feature_map, basis, self.X[at])
            products = zip(map(np.asarray, parts), inverses, strict=True)
            A = np.concatenate([part if C is None else times_upper(part, C) for part, C in products], axis=1)
            self.A[at], self.diagonal[at] = A, self._residual(A, variances)

    def _residual(self, A: np.ndarray, variances: list[Any]) -> np.ndarray:
        """`R_ii` of rows, clamped at zero component by component."""
        columns = residual_columns(self.feature_map, self.basis, A)
        parts = zip(map(np.asarray, variances), columns, strict=True)
        total = np.zeros(len(A), A.dtype)
        for variance, own in parts:
            total += np.maximum(variance - np.einsum("nm,nm->n", own, own), 0.0)
        return total

    def among_tiles(self) -> np.ndarray:
        """`R_ij` (t, n, n) of the rows of each tile."""
        return self._residuals(self.every, self.A.reshape(*self.every.shape, -1))

    def among_drawn(self) -> np.ndarray:
        """`R_ij` (b, j, j) of the drawn rows of each bag."""
        return self._residuals(self.taken, self.A[self.taken])

    def _residuals(self, at: np.ndarray, A: np.ndarray) -> np.ndarray:
        """`R_ij` (k, i, i) among rows at the positions `at` (k, i), whose features are `A` (k, i, m)."""
        R = self._kernel(at, at)
        for own in residual_columns(self.feature_map, self.basis, A):
            R = R - own @ own.swapaxes(-2, -1)
        return R.astype(FAST)

    def with_drawn(self) -> np.ndarray:
        """`R_ij` (t, n, j) of all rows with the drawn ones of their bag."""
        n, first = self.every.shape[1], self.tiles.first
        R = self._kernel(self.every, self.taken[self.tiles.owner]).reshape(len(self.X), -1)
        for begin, end, drawn in zip(n * first, n * np.append(first[1:], len(self.every)), self.taken, strict=True):
            all_, some = (residual_columns(self.feature_map, self.basis, A) for A in (self.A[begin:end], self.A[drawn]))
            for own, others in zip(all_, some, strict=True):
                R[begin:end] -= own @ others.T
        return R.reshape(*self.every.shape, -1).astype(FAST)

    def _kernel(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Covariances (k, i, j) of rows at `one` (k, i) and `other` (k, j), before landmarks explain them."""
        k, i = one.shape
        width = TILE if i % TILE == 0 else i
        one, other = one.reshape(-1, width), np.repeat(other, i // width, axis=0)
        size = min(max(PAIRS // (width * other.shape[1]), 1), round_up(len(one), 1))
        R = np.empty((len(one), width, other.shape[1]), self.X.dtype)
        for at in _blocks(np.arange(len(one)), size):
            R[at] = _kernel_among(self.feature_map, self.basis, self.X[one[at]], self.X[other[at]])
        return R.reshape(k, i, -1)


@jit(static_argnums=0)
def _kernels_with_landmarks(feature_map: FeatureMap, basis: Basis, X: Any) -> tuple[list[jax.Array], list[jax.Array]]:
    return feature_parts(feature_map, basis, X), prior_variances(feature_map, basis, X)


@jit(static_argnums=0)
def _kernel_among(feature_map: FeatureMap, basis: Basis, X: Any, X2: Any) -> jax.Array:
    return residual_kernel(feature_map, basis, X, X2)


def _blocks(positions: np.ndarray, size: int) -> list[np.ndarray]:
    """So many positions at a time; the last block repeats the last one."""
    return [positions[np.minimum(np.arange(i, i + size), len(positions) - 1)] for i in range(0, len(positions), size)]
