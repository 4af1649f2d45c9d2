"""Latent values of the individuals of larger bags, and slopes through them: products outside compiled functions.

Mean and variance of `f` under the weights, `A mu` and the squared rows of `F = A C`, take nearly all of the work that
a bag's moments are. A compiled product has no use for the zeros of the triangular `C`, and differentiating it computes
a whole matrix where a symmetrical one is asked for: `C^T dC = F^T diag(2 g) F`, `g` the slopes in the variances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from vbagg.moments import Latent, Pixels
from vbagg.triangular import times_lower, weighted_gram


def with_latent(staged: Pixels, mu: np.ndarray, factor: np.ndarray) -> tuple[Pixels, np.ndarray]:
    """Staged individuals that know their latent values by weights `N(mu, factor factor^T)`, and `F` (t n, m).

    The factor is lower triangular.
    """
    A = _rows(staged)
    F = times_lower(A, factor)
    shape = staged.weight.shape
    mean = np.asarray(staged.known) + (A @ mu.astype(A.dtype)).reshape(shape)
    return replace(staged, latent=Latent(mean, np.einsum("nm,nm->n", F, F).reshape(shape))), F


def slopes_through_latent(staged: Pixels, F: np.ndarray, slopes: Latent) -> tuple[np.ndarray, np.ndarray]:
    """Slope in the mean of the weights from those in latent values, and `C^T dC` for their factor `C`."""
    by_mean, by_variance = (np.ravel(part) for part in (slopes.mean, slopes.explained))
    return (by_mean @ _rows(staged)).astype(np.float64), 2 * weighted_gram(F, by_variance)


def slope_in_factor(factor: np.ndarray, product: np.ndarray) -> np.ndarray:
    """`dC` on and below the diagonal from the whole of the symmetrical `C^T dC`."""
    return np.tril(scipy.linalg.solve_triangular(factor, product, lower=True, trans="T"))


def _rows(staged: Any) -> np.ndarray:
    A = np.asarray(staged.A)
    return A.reshape(-1, A.shape[-1])
