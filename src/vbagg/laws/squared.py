"""Law of the square of a Gaussian: the rate under the square link (MATH section 9)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from .base import Array, require_finite, require_positive, require_spread
from .latent_mixtures import OfGaussian, shared_quantile
from .special import LOG_2PI, point_log_density


class SquaredNormal(OfGaussian):
    """``scale * f^2``, f ~ N(mean, std^2): a scaled non-central chi-square with one degree of freedom.

    Its root sqrt(scale) |f| is a folded normal; with a = |mean| / std and u = root / std the cdf is
    F(u) = Phi(u - a) - Phi(-u - a).
    """

    folded = True

    def __init__(self, mean: npt.ArrayLike, std: npt.ArrayLike, scale: npt.ArrayLike = 1.0) -> None:
        location, spread, scale = self._rows(mean=mean, std=std, scale=scale)
        require_finite("mean", location)
        require_spread("std", spread)
        require_positive("scale", scale)
        self.location, self.spread = np.sqrt(scale) * np.abs(location), np.sqrt(scale) * spread

    def _mean(self) -> Array:
        return self.location**2 + self.spread**2

    def _std(self) -> Array:
        return self.spread * np.sqrt(2 * self.spread**2 + 4 * self.location**2)

    def _tail(self, x: Array, upper: bool) -> Array:
        u, a = self._folded(x)
        smooth = ndtr(a - u) + ndtr(-a - u) if upper else _folded_cdf(u, a)
        smooth = np.where(x > 0, smooth, float(upper))
        return np.where(self.spread > 0, smooth, (x >= self.location**2) != upper)

    def _log_prob(self, y: Array) -> Array:
        u, a = self._folded(y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # [phi(u - a) + phi(u + a)] / (2 spread root)
            log_density = np.log1p(np.exp(-2 * a * u)) - 0.5 * (u - a) ** 2 - 0.5 * LOG_2PI
            log_density = log_density - np.log(2 * self.spread**2 * u)
        smooth = np.where(y >= 0, log_density, -np.inf)
        return np.where(self.spread > 0, smooth, point_log_density(y, self.location**2))

    def _folded(self, x: Array) -> tuple[Array, Array]:
        spread = np.where(self.spread > 0, self.spread, 1.0)
        return np.sqrt(np.maximum(x, 0.0)) / spread, self.location / spread

    def _quantile(self, q: float) -> Array:
        return shared_quantile([self], np.ones(1), q)

    def _value(self, f: Array) -> Array:
        return f**2

    def at_scores(self, z: npt.ArrayLike) -> Array:
        """Squares of Gaussians with scores ``z``, increasing in them where the Gaussian is positive."""
        return (self.location + self.spread * np.asarray(z)) ** 2

    def _sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.at_scores(rng.standard_normal((n, len(self))))


def _folded_cdf(u: Array, a: Array) -> Array:
    """Phi(u - a) - Phi(-u - a), by its series in u where the difference would cancel."""
    probability = ndtr(u - a) - ndtr(-u - a)
    small = u < 0.01 / (1 + a)
    if small.any():
        u, a = (np.broadcast_to(values, small.shape)[small] for values in (u, np.minimum(a, 100.0)))
        u2, a2 = u * u, a * a
        series = 1 + u2 * ((a2 - 1) / 6 + u2 * (a2 * (a2 - 6) + 3) / 120)
        probability[small] = 2 * u * _phi(a) * series
    return probability


def _phi(z: Array) -> Array:
    return np.exp(-0.5 * z * z - 0.5 * LOG_2PI)
