"""Products of the rows of a long table with a triangular matrix and with themselves, a half of the work left out.

NumPy lets other threads run meanwhile, and multiplies parts of tables without copying them. Compiled functions that
stay on their device have products of their own.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

COLUMNS, ROWS = 128, 1024
"""Of a block: zeros above the diagonal are left out by columns, and what is read again stays near the processor."""
NARROW = 64
"""Columns of a block of a product of which a triangle is wanted."""
GRAM_ROWS = 4096
"""Rows that are weighted at a time."""


def times_lower(rows: np.ndarray, triangle: np.ndarray) -> np.ndarray:
    """`rows triangle` (n, m) for a lower triangular matrix (m, m), in the precision of the rows."""
    n, m = rows.shape
    triangle = np.asarray(triangle, rows.dtype)
    out = np.empty((n, m), rows.dtype)
    for start in range(0, n, ROWS):
        part = slice(start, start + ROWS)
        for first in range(0, m, COLUMNS):
            block = slice(first, first + COLUMNS)
            np.matmul(rows[part, first:], triangle[first:, block], out=out[part, block])
    return out


def lower_product(left: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Entries on and below the diagonal of the product of two square matrices, the second lower triangular.

    Above the diagonal it is zero but for some entries that mean nothing.
    """
    m = len(lower)
    out = np.zeros((m, m))
    for first in range(0, m, NARROW):
        below, block = slice(first, None), slice(first, first + NARROW)
        np.matmul(left[below, below], lower[below, block], out=out[below, block])
    return out


def weighted_gram(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """`rows^T diag(weight) rows` (m, m) in float64, for weights of either sign."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for sign in (1.0, -1.0):
        inside = np.flatnonzero(sign * weight > 0)
        for first in range(0, len(inside), GRAM_ROWS):
            at = inside[first : first + GRAM_ROWS]
            scaled = rows[at] * np.sqrt(np.abs(weight[at]))[:, None]
            # a product with its own transpose, of which the library computes one half
            total += sign * (scaled.T @ scaled)
    return total


def compiled_times_upper(rows: Any, triangle: Any) -> Any:
    """`rows triangle` (n, m) for an upper triangular matrix (m, m), inside compiled functions."""
    starts = range(0, triangle.shape[1], COLUMNS)
    parts = [rows[:, : i + COLUMNS] @ triangle[: i + COLUMNS, i : i + COLUMNS] for i in starts]
    return jnp.concatenate(parts, axis=-1)


def compiled_times_lower(rows: Any, triangle: Any) -> Any:
    """`rows triangle` (n, m) for a lower triangular matrix (m, m), inside compiled functions."""
    starts = range(0, triangle.shape[1], COLUMNS)
    return jnp.concatenate([rows[:, i:] @ triangle[i:, i : i + COLUMNS] for i in starts], axis=-1)


def compiled_squares_lower(rows: Any, triangle: Any) -> Any:
    """Squared lengths (n) of `rows triangle` for a lower triangular matrix (m, m), inside compiled functions."""
    starts = range(0, triangle.shape[1], COLUMNS)
    return sum(jnp.sum((rows[:, i:] @ triangle[i:, i : i + COLUMNS]) ** 2, axis=-1) for i in starts)
