"""Links: the rate `Psi(f)` of an individual, its moments when `f` is Gaussian, and all else that depends on a link.

By Price's theorem the covariance of two rates is

    cov(Psi(f_i), Psi(f_j)) = sum_k E Psi^(k)(f_i) E Psi^(k)(f_j) S_ij^k / k!

so the slope `E Psi'(f)` carries the first order of every link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from vbagg import laws, special
from vbagg.bags import Bags
from vbagg.errors import unknown_name
from vbagg.laws.arrays import COMPILED
from vbagg.laws.gaussian import sigmoid_moments
from vbagg.matched import Matched, MatchedBeta, MatchedGamma, MatchedLogNormal, MatchedNormal

Array = jax.Array


@dataclass(frozen=True)
class Link:
    """A map from the latent function to a rate. Methods are elementwise; `m`, `s` are mean and variance of `f`."""

    name: ClassVar[str]
    scale_name: ClassVar[str]
    """What `f` is, in words."""
    typical_variance: ClassVar[float]
    """Variance of `f` with which rates vary by about 60%, odds by a factor of 2.7, or as bag means do."""
    individual_variance: ClassVar[float] = 0.03
    """Variance of `f` with which rates, or odds, of single individuals differ by about a sixth."""
    mean_sd: ClassVar[float] = 3.0
    """Prior sd of the constant mean of `f`, in units in which the overall rate is of order one."""
    in_units_of_data: ClassVar[bool] = False
    """Whether `f` has the units of outputs, so that nobody knows beforehand how much it varies."""
    averages: ClassVar[bool] = False
    """Whether a bag's total is the weighted mean of its rates, which cannot exceed one, rather than their sum."""
    folded: ClassVar[bool] = False
    """Whether rates increase with `|f|` rather than with `f`."""
    least_rate: ClassVar[float] = -np.inf
    """Values below it are no rates."""
    least_coordinate: ClassVar[float] = -np.inf
    """Least latent value that stands for a total: of two with the same rate it is the larger."""
    bag_sums: ClassVar[str] = "none"
    """How individuals collapse into sums of bags, MATH (9): "linear", "quadratic" or "none"."""
    matched: ClassVar[Matched]
    """Distribution that stands for a bag's total in the objective."""
    rate_law: ClassVar[Any]
    """Exact distribution of an individual's rate: `rate_law(mean, sd, scale)`."""
    total_law: ClassVar[Any]
    """Distribution that stands for a bag's total in predictions: `total_law.from_moments(mean, variance)`."""
    effect_law: ClassVar[Any] = laws.LogNormal
    """Distribution that stands for how many times a total is what was expected: `effect_law.from_moments`."""
    no_effect: ClassVar[float] = 1.0
    """The effect of a bag whose total is as expected."""

    def value(self, f: Array) -> Array:
        """`Psi(f)`."""
        raise NotImplementedError

    def rate_and_slope(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`Psi(f)` and `Psi'(f)` of NumPy arrays of any shape, which JAX would compile anew for each."""
        raise NotImplementedError

    def inverse(self, rate: np.ndarray) -> np.ndarray:
        """The `f` of a rate (the positive one where there are two)."""
        raise NotImplementedError

    def latent(self, rate: Array) -> Array:
        """`inverse` of JAX arrays; of values that are no rates that of the nearest rate."""
        raise NotImplementedError

    def mean(self, m: Array, s: Array) -> Array:
        """`E Psi(f)`."""
        raise NotImplementedError

    def rate_moments(self, m: Array, sd: Array) -> tuple[Array, Array]:
        """Mean and sd of `Psi(f)`, exact, from those of `f`; by default the covariance is exact."""
        slope = self.slope(m, sd**2)
        return self.mean(m, sd**2), jnp.sqrt(self.covariance(slope, slope, sd**2))

    def slope(self, m: Array, s: Array) -> Array:
        """`E Psi'(f)`."""
        raise NotImplementedError

    def expected_log(self, m: Array, s: Array) -> Array:
        """`E log Psi(f)`, the `xi` of Lemma 1."""
        raise NotImplementedError(f"the {self.name} link may be negative: it has no expected logarithm")

    def covariance(self, slope_i: Array, slope_j: Array, s: Array) -> Array:
        """Covariance of two rates, `s` the covariance of their latent values; first order unless exact is known."""
        return slope_i * slope_j * s

    def added_covariance(self, slope_i: Array, slope_j: Array, s: Array, more: Array) -> Array:
        """What a latent covariance of `more` adds to the covariance of two rates, without cancellation."""
        return slope_i * slope_j * more

    def bag_variance(self, weight: Array, slope: Array, S: Array) -> Array:
        """Sum of `w_i w_j covariance(i, j)` over all pairs of each bag, from latent covariances `S` (b, n, n)."""
        return _quadratic(weight * slope, S)

    def added_bag_variance(self, weight: Array, slope: Array, S: Array, more: Array) -> Array:
        """Sum of `w_i w_j added_covariance(i, j)` over all pairs of each bag."""
        return _quadratic(weight * slope, more)

    def total_covariance(self, mean_a: Array, mean_c: Array, first_order: Array) -> Array:
        """Covariance of the totals of two bags from its first order: exact where each bag is one individual."""
        return first_order

    def coordinate_moments(self, M: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the Gaussian `h` for which the total `Psi(h)` has mean `M` and variance `V`."""
        raise NotImplementedError

    def total_moments(self, h: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and variance of the total whose coordinate has these; undoes `coordinate_moments`."""
        slope = self.slope(h, variance)
        return self.mean(h, variance), self.covariance(slope, slope, variance)

    def coordinate_slope(self, M: Array) -> Array:
        """`dh/dT` at a total `M = Psi(h)`."""
        raise NotImplementedError

    def effect_shape(self, f: Array) -> Array:
        """How `f` of each individual moves, up to a factor, when an effect of the bag multiplies its rates."""
        return jnp.ones_like(f)

    def effect_mean(self, variance: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Mean of an effect on `h` that has this variance and multiplies totals by one on average."""
        return np.zeros_like(variance)

    def compared(self, mean: np.ndarray, sd: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of how many times a total of this mean and sd is what was expected."""
        return mean / expected, sd / expected

    def units(self, y: np.ndarray, exposure: np.ndarray) -> tuple[float, float]:
        """Overall rate, by which rates are divided so that `f` is of order one, and the mean of `f` at that rate."""
        raise NotImplementedError

    def latent_unit(self, rate_scale: float) -> float:
        """By what `f` is divided where rates are divided by `rate_scale`."""
        return 1.0

    def latent_shift(self, rate_scale: float) -> float:
        """What `f` loses, in its own units, where rates are divided by `rate_scale`."""
        return 0.0

    def mean_offset(self, bags: Bags, offset: np.ndarray) -> np.ndarray:
        """Offset of each bag that stands for those of its individuals (n)."""
        return bags.sum_by_bag(bags.weight * offset) / bags.totals()


def _quadratic(u: Array, S: Array) -> Array:
    """`u^T S u` of each bag; as a product with a vector its gradient never forms `u u^T`."""
    return jnp.sum(u * jnp.einsum("bij,bj->bi", S, u), axis=-1)


def _mean_rate(y: np.ndarray, exposure: np.ndarray) -> float:
    return float(max(y.sum(), 0.5) / exposure.sum())


@dataclass(frozen=True)
class Identity(Link):
    """`Psi(f) = f`; moments MATH (8)."""

    name = "identity"
    scale_name = "rate"
    in_units_of_data = True
    typical_variance = 1.0
    bag_sums = "linear"
    matched = MatchedNormal()
    rate_law = laws.Normal
    total_law = laws.Normal
    effect_law = laws.Normal
    no_effect = 0.0

    def value(self, f: Array) -> Array:  # noqa: D102
        return f

    def rate_and_slope(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        return f, np.ones_like(f)

    def inverse(self, rate: np.ndarray) -> np.ndarray:  # noqa: D102
        return rate

    def latent(self, rate: Array) -> Array:  # noqa: D102
        return rate

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return m

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return jnp.ones_like(m)

    def coordinate_moments(self, M: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        return M, V

    def coordinate_slope(self, M: Array) -> Array:  # noqa: D102
        return jnp.ones_like(M)

    def compared(self, mean: np.ndarray, sd: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of by how much it is above that: totals may be negative."""
        return mean - expected, sd

    def units(self, y: np.ndarray, exposure: np.ndarray) -> tuple[float, float]:  # noqa: D102
        rate = float(exposure @ y / (exposure @ exposure))
        spread = float(np.sqrt(np.mean((y / exposure - rate) ** 2)))
        scale = spread if spread > 1e-9 * abs(rate) else abs(rate) or 1.0
        return scale, rate / scale

    def latent_unit(self, rate_scale: float) -> float:  # noqa: D102
        return rate_scale


@dataclass(frozen=True)
class Exp(Link):
    """`Psi(f) = exp(f)`; moments MATH (6)."""

    name = "exp"
    scale_name = "log rate"
    typical_variance = 0.3
    least_rate = 0.0
    matched = MatchedLogNormal()
    rate_law = laws.LogNormal
    total_law = laws.LogNormal

    def value(self, f: Array) -> Array:  # noqa: D102
        return jnp.exp(f)

    def rate_and_slope(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        rate = np.exp(f)
        return rate, rate

    def inverse(self, rate: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.log(rate)

    def latent(self, rate: Array) -> Array:  # noqa: D102
        return jnp.log(jnp.maximum(rate, 0.0))

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return jnp.exp(m + s / 2)

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return jnp.exp(m + s / 2)

    def expected_log(self, m: Array, s: Array) -> Array:  # noqa: D102
        return m

    def covariance(self, slope_i: Array, slope_j: Array, s: Array) -> Array:  # noqa: D102
        return slope_i * slope_j * jnp.expm1(s)

    def added_covariance(self, slope_i: Array, slope_j: Array, s: Array, more: Array) -> Array:  # noqa: D102
        return slope_i * slope_j * jnp.exp(s) * jnp.expm1(more)

    def total_covariance(self, mean_a: Array, mean_c: Array, first_order: Array) -> Array:  # noqa: D102
        return mean_a * mean_c * jnp.expm1(first_order / (mean_a * mean_c))

    def bag_variance(self, weight: Array, slope: Array, S: Array) -> Array:  # noqa: D102
        return _quadratic(weight * slope, jnp.expm1(S))

    def added_bag_variance(self, weight: Array, slope: Array, S: Array, more: Array) -> Array:  # noqa: D102
        return _quadratic(weight * slope, jnp.exp(S) * jnp.expm1(more))

    def coordinate_moments(self, M: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        variance = np.log1p(V / M**2)
        return np.log(M) - variance / 2, variance

    def coordinate_slope(self, M: Array) -> Array:  # noqa: D102
        return 1 / M

    def effect_mean(self, variance: np.ndarray, h: np.ndarray) -> np.ndarray:  # noqa: D102
        return -variance / 2

    def units(self, y: np.ndarray, exposure: np.ndarray) -> tuple[float, float]:  # noqa: D102
        return _mean_rate(y, exposure), 0.0

    def latent_shift(self, rate_scale: float) -> float:  # noqa: D102
        return float(np.log(rate_scale))

    def mean_offset(self, bags: Bags, offset: np.ndarray) -> np.ndarray:  # noqa: D102
        highest = offset.max()
        return highest + np.log(bags.sum_by_bag(bags.weight * np.exp(offset - highest)) / bags.totals())


@dataclass(frozen=True)
class Square(Link):
    """`Psi(f) = f^2`; moments MATH (7)."""

    name = "square"
    scale_name = "root of the rate"
    typical_variance = 0.1
    individual_variance = 0.0075
    mean_sd = 1.0
    least_coordinate = 0.0
    bag_sums = "quadratic"
    folded = True
    least_rate = 0.0
    matched = MatchedGamma()
    rate_law = laws.SquaredNormal
    total_law = laws.Gamma

    def value(self, f: Array) -> Array:  # noqa: D102
        return f**2

    def rate_and_slope(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        return f**2, 2 * f

    def inverse(self, rate: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.sqrt(rate)

    def latent(self, rate: Array) -> Array:  # noqa: D102
        return jnp.sqrt(jnp.maximum(rate, 0.0))

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return m**2 + s

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return 2 * m

    def expected_log(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_log_square(m, s)

    def covariance(self, slope_i: Array, slope_j: Array, s: Array) -> Array:  # noqa: D102
        return slope_i * slope_j * s + 2 * s**2

    def added_covariance(self, slope_i: Array, slope_j: Array, s: Array, more: Array) -> Array:  # noqa: D102
        return slope_i * slope_j * more + 2 * more * (2 * s + more)

    def total_covariance(self, mean_a: Array, mean_c: Array, first_order: Array) -> Array:  # noqa: D102
        # 4 m m' S + 2 S^2 with m^2 taken as the mean
        return first_order + first_order**2 / (8 * mean_a * mean_c)

    def bag_variance(self, weight: Array, slope: Array, S: Array) -> Array:  # noqa: D102
        return _quadratic(weight * slope, S) + 2 * _quadratic(weight, S**2)

    def added_bag_variance(self, weight: Array, slope: Array, S: Array, more: Array) -> Array:  # noqa: D102
        return _quadratic(weight * slope, more) + 2 * _quadratic(weight, more * (2 * S + more))

    def coordinate_moments(self, M: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        # E h^2 = m^2 + s, Var h^2 = 2 s^2 + 4 m^2 s; the variance of a sum of squares is at most 2 M^2
        square = np.sqrt(np.maximum(M**2 - V / 2, 0.0))
        return np.sqrt(square), (V / 2) / (M + square)

    def coordinate_slope(self, M: Array) -> Array:  # noqa: D102
        return 0.5 / jnp.sqrt(M)

    def effect_shape(self, f: Array) -> Array:  # noqa: D102
        return f

    def effect_mean(self, variance: np.ndarray, h: np.ndarray) -> np.ndarray:  # noqa: D102
        return -variance / (2 * np.maximum(h, np.sqrt(variance) + 1e-300))

    def units(self, y: np.ndarray, exposure: np.ndarray) -> tuple[float, float]:  # noqa: D102
        return _mean_rate(y, exposure), 1.0

    def latent_unit(self, rate_scale: float) -> float:  # noqa: D102
        return float(np.sqrt(rate_scale))


@dataclass(frozen=True)
class Logistic(Link):
    """`Psi(f) = 1 / (1 + exp(-f))`; means by one-dimensional quadrature, covariance to first order."""

    name = "logistic"
    scale_name = "log odds"
    typical_variance = 1.0
    averages = True
    least_rate = 0.0
    matched = MatchedBeta()
    rate_law = laws.LogitNormal
    total_law = laws.Beta

    def value(self, f: Array) -> Array:  # noqa: D102
        return jax.nn.sigmoid(f)

    def rate_and_slope(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        rate = expit(f)
        return rate, rate * expit(-f)

    def inverse(self, rate: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.log(rate / (1 - rate))

    def latent(self, rate: Array) -> Array:  # noqa: D102
        return jax.scipy.special.logit(jnp.clip(rate, 0.0, 1.0))

    def mean(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_sigmoid(m, s)

    def rate_moments(self, m: Array, sd: Array) -> tuple[Array, Array]:  # noqa: D102
        return sigmoid_moments(COMPILED, m, sd)

    def slope(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_sigmoid_slope(m, s)

    def expected_log(self, m: Array, s: Array) -> Array:  # noqa: D102
        return special.expected_log_sigmoid(m, s)

    def coordinate_moments(self, M: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        # first order, and the probit's factor by which a mean of logistic functions is flatter
        variance = V / (M * (1 - M)) ** 2
        return np.log(M / (1 - M)) * np.sqrt(1 + np.pi * variance / 8), variance

    def total_moments(self, h: Array, variance: Array) -> tuple[Array, Array]:  # noqa: D102
        M = jax.nn.sigmoid(h / jnp.sqrt(1 + jnp.pi * variance / 8))
        return M, variance * (M * (1 - M)) ** 2

    def coordinate_slope(self, M: Array) -> Array:  # noqa: D102
        return 1 / (M * (1 - M))

    def units(self, y: np.ndarray, exposure: np.ndarray) -> tuple[float, float]:  # noqa: D102
        p = (y.sum() + 0.5) / (exposure.sum() + 1)
        return 1.0, float(np.log(p / (1 - p)))


LINKS: dict[str, Link] = {link.name: link for link in (Identity(), Exp(), Square(), Logistic())}


def get_link(name: str) -> Link:
    """Return the link called `name`; an unknown name lists the known ones."""
    if name not in LINKS:
        raise unknown_name("link", name, LINKS)
    return LINKS[name]
