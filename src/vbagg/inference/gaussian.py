"""The posterior of the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Gaussian:
    """`q(v) = N(mu, factor factor^T)` over the whitened weights."""

    mu: np.ndarray
    factor: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """`Sigma`."""
        return self.factor @ self.factor.T

    def kl(self) -> float:
        """KL divergence from the prior `N(0, I)`, MATH (4)."""
        log_det = 2 * np.sum(np.log(np.abs(np.diag(self.factor))))
        return 0.5 * float(np.sum(self.factor**2) + self.mu @ self.mu - len(self.mu) - log_det)
