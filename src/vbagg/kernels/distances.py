"""Distances between rows, in the precision of the arrays and with gradients that exist."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import pdist

from vbagg.ordering import sorted_rows

DIRECT_COLUMNS = 2  # up to here plain differences are as fast as a matrix product, and more accurate
MEDIAN_ROWS = 1000


def squared_distances(X1: jax.Array, X2: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Squared distances (n1, n2) in length-scales, one or one per column; exactly zero between equal rows.

    A common length-scale is applied last: its gradient then needs no further pass over the columns.
    """
    if lengthscale.size > 1:
        centre = _centre(X2)  # first, since scaling rounds too
        return _distances_by_product((X1 - centre) / lengthscale, (X2 - centre) / lengthscale)
    if X1.shape[-1] <= DIRECT_COLUMNS:
        r2 = reduce(operator.add, (difference**2 for difference in differences(X1, X2)))
    else:
        r2 = _distances_by_product(X1 - _centre(X2), X2 - _centre(X2))
    return r2 / lengthscale.reshape(()) ** 2


def _distances_by_product(X1: jax.Array, X2: jax.Array) -> jax.Array:
    """``|x|^2 + |z|^2 - 2 x.z``, and zero where that does not exceed its own rounding error."""
    norms = jnp.sum(X1**2, axis=-1)[..., :, None] + jnp.sum(X2**2, axis=-1)[..., None, :]
    r2 = norms - 2.0 * product(X1, X2)
    rounding = (X1.shape[-1] + 2) * jnp.finfo(X1.dtype).eps * norms
    return jnp.where(r2 > rounding, r2, 0.0)


def _centre(X: jax.Array) -> jax.Array:
    # distances do not depend on it, so neither do gradients
    return jax.lax.stop_gradient(jnp.mean(X, axis=-2, keepdims=True))


def median_distance(X: np.ndarray) -> float:
    """Median distance between distinct rows of ``X``, 1 if there is only one.

    Of more than 1,000 distinct rows it takes 1,000, evenly spaced in lexicographic order.
    """
    order, first = sorted_rows(X)
    rows = X[order[first]]
    if len(rows) > MEDIAN_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MEDIAN_ROWS).round().astype(int)]
    return float(np.median(pdist(rows))) if len(rows) > 1 else 1.0


def typical_distance(n_columns: int) -> float:
    """Root mean squared distance of standardised columns, E |x - x'|^2 = 2 d."""
    return math.sqrt(2.0 * n_columns)


def product(X1: jax.Array, X2: jax.Array) -> jax.Array:
    """``X1 X2^T``."""
    # accelerators multiply float32 in a lower precision unless told otherwise
    return jnp.matmul(X1, X2.mT, precision=jax.lax.Precision.HIGHEST)


def differences(X1: jax.Array, X2: jax.Array) -> Iterator[jax.Array]:
    """Yield ``x_d - z_d`` for all pairs of rows, one column at a time."""
    for d in range(X1.shape[-1]):
        yield X1[..., :, None, d] - X2[..., None, :, d]


def safe_sqrt(r2: jax.Array) -> jax.Array:
    """Square root whose gradient at zero is zero."""
    positive = r2 > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, r2, 1.0)), 0.0)
