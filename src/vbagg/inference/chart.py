"""Coordinates around a Gaussian in which distances count standard deviations, and curvature learnt in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy.linalg

from vbagg.inference.gaussian import Gaussian
from vbagg.triangular import lower_product

MEMORY = 20
"""Past moves whose curvature is remembered."""


@dataclass(frozen=True)
class Chart:
    """`q = N(mu_0 + C_0 u, C_0 L L^T C_0^T)` has the coordinates `(u, L)`, `L` lower triangular.

    The diagonal of `L` is counted in units of `1 / sqrt(2)`: the Fisher metric at the origin is then the identity.
    """

    origin: Gaussian

    @property
    def centre(self) -> np.ndarray:
        """Coordinates of the origin."""
        _, unit = _triangle(len(self.origin.mu))
        return np.concatenate([np.zeros(len(self.origin.mu)), np.where(unit < 1, 1 / unit, 0.0)])

    def vector(self, q: Gaussian) -> np.ndarray:
        """Coordinates of a Gaussian."""
        C = self.origin.factor
        u = scipy.linalg.solve_triangular(C, q.mu - self.origin.mu, lower=True)
        L = scipy.linalg.solve_triangular(C, q.factor, lower=True)
        entries, unit = _triangle(len(u))
        return np.concatenate([u, np.ravel(L)[entries] / unit])

    def gaussian(self, z: np.ndarray) -> Gaussian:
        """The Gaussian with these coordinates; not one if the diagonal is not positive."""
        m, C = len(self.origin.mu), self.origin.factor
        entries, unit = _triangle(m)
        L = np.zeros((m, m))
        L.ravel()[entries] = z[m:] * unit
        return Gaussian(self.origin.mu + C @ z[:m], lower_product(C, L))

    def slope(self, d_mu: np.ndarray, d_factor: np.ndarray) -> np.ndarray:
        """Gradient in the coordinates from that in mean and factor."""
        C = self.origin.factor
        entries, unit = _triangle(len(d_mu))
        return np.concatenate([C.T @ d_mu, np.ravel(lower_product(C.T, d_factor))[entries] * unit])


@lru_cache(maxsize=4)
def _triangle(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the entries of a lower triangular matrix (m, m), and their units."""
    rows, columns = np.tril_indices(m)
    return rows * m + columns, np.where(rows == columns, np.sqrt(0.5), 1.0)


@dataclass(frozen=True)
class Curvature:
    """Inverse Hessian of minus an objective as past moves tell it (limited-memory BFGS), the identity elsewhere."""

    moves: list[np.ndarray] = field(default_factory=list)
    changes: list[np.ndarray] = field(default_factory=list)

    def direction(self, slope: np.ndarray) -> np.ndarray:
        """Quasi-Newton step uphill."""
        step, factors = slope.copy(), []
        for move, change in zip(reversed(self.moves), reversed(self.changes), strict=True):
            factors.append(float(move @ step) / float(move @ change))
            step -= factors[-1] * change
        for move, change, factor in zip(self.moves, self.changes, reversed(factors), strict=True):
            step += (factor - float(change @ step) / float(move @ change)) * move
        return step

    def with_move(self, move: np.ndarray, change: np.ndarray) -> Curvature:
        """One more move and the fall of the slope along it; left out where the curvature is not positive."""
        if move @ change <= 1e-6 * np.linalg.norm(move) * np.linalg.norm(change):
            return self
        return Curvature([*self.moves, move][-MEMORY:], [*self.changes, change][-MEMORY:])
