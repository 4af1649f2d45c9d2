"""Kernels with parameters of their own."""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from vbagg.kernels.base import LogParameters
from vbagg.kernels.distances import differences, product, safe_sqrt, squared_distances
from vbagg.kernels.leaf import Leaf, Start, positive_values
from vbagg.kernels.prior import Prior

SHARE_OF_WHITE = 0.1
"""Starting variance of an individual effect, relative to that of a component with landmarks."""


@dataclass(frozen=True)
class Stationary(Leaf):
    """``variance * correlation(r)``, where r is the distance in length-scales.

    Parameters
    ----------
    columns : name, number or several of them; None for all
    ard : whether each column has its own length-scale
    variance, lengthscale : starting values; with ``ard`` the length-scale may be a tuple
    fixed : names of parameters that stay at their starting value
    local : whether it has no landmarks: correlated within bags, independent between them, for what varies over
        shorter distances than bags are wide
    """

    columns: Any = None
    ard: bool = False
    variance: Start = None
    lengthscale: Start = None
    fixed: Any = ()
    local: bool = False

    reach: ClassVar[float] = 1.0
    """Starting length-scale, and median of its prior, in typical distances between rows."""

    @staticmethod
    @abstractmethod
    def _correlation(r2: jax.Array) -> jax.Array: ...

    def _covariance(self, value: dict[str, jax.Array], X1: jax.Array, X2: jax.Array) -> jax.Array:
        r2 = squared_distances(X1, X2, value["lengthscale"])
        return value["variance"] * self._correlation(r2)

    def _default_starts(self, distance: float, share: float) -> dict[str, Any]:
        return {"variance": share, "lengthscale": self.reach * distance}


class RBF(Stationary):
    """``exp(-r^2 / 2)``, infinitely smooth; parameters as `Stationary`."""

    @staticmethod
    def _correlation(r2: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * r2)


class Matern12(Stationary):
    """``exp(-r)``, continuous but rough; parameters as `Stationary`."""

    reach = 0.3

    @staticmethod
    def _correlation(r2: jax.Array) -> jax.Array:
        return jnp.exp(-safe_sqrt(r2))


class Matern32(Stationary):
    """``(1 + a) exp(-a)``, ``a = sqrt(3) r``, once differentiable; parameters as `Stationary`."""

    reach = 0.3

    @staticmethod
    def _correlation(r2: jax.Array) -> jax.Array:
        a = math.sqrt(3.0) * safe_sqrt(r2)
        return (1.0 + a) * jnp.exp(-a)


class Matern52(Stationary):
    """``(1 + a + a^2/3) exp(-a)``, ``a = sqrt(5) r``, twice differentiable; parameters as `Stationary`."""

    reach = 0.3

    @staticmethod
    def _correlation(r2: jax.Array) -> jax.Array:
        a = math.sqrt(5.0) * safe_sqrt(r2)
        return (1.0 + a + (5.0 / 3.0) * r2) * jnp.exp(-a)


@dataclass(frozen=True)
class Periodic(Leaf):
    """``variance * prod_d exp(-2 sin^2(pi (x_d - x'_d) / period) / lengthscale_d^2)``.

    One period serves all its columns. It is learnt from its start, which should be good: the objective has
    many local optima in it. The length-scale has no unit and starts at sqrt(d).
    """

    columns: Any = None
    period: Start = None
    ard: bool = False
    variance: Start = None
    lengthscale: Start = None
    fixed: Any = ()
    parameters: ClassVar[tuple[str, ...]] = ("variance", "lengthscale", "period")
    in_column_units: ClassVar[str] = "period"

    def _covariance(self, value: dict[str, jax.Array], X1: jax.Array, X2: jax.Array) -> jax.Array:
        lengthscale = jnp.broadcast_to(value["lengthscale"], X1.shape[-1:])
        sines = (jnp.sin(jnp.pi / value["period"] * difference) for difference in differences(X1, X2))
        exponent = reduce(operator.add, ((sine / l) ** 2 for sine, l in zip(sines, lengthscale, strict=True)))
        return value["variance"] * jnp.exp(-2.0 * exponent)

    def _default_starts(self, distance: float, share: float) -> dict[str, Any]:
        period = distance if self.period is None else self.period
        return {"variance": share, "lengthscale": math.sqrt(len(self.column_numbers)), "period": period}


@dataclass(frozen=True)
class Linear(Leaf):
    """``sum_d variance_d x_d x'_d``, no bias: slopes with prior variance_d, one for all unless ``ard``."""

    columns: Any = None
    ard: bool = True
    variance: Start = None
    fixed: Any = ()
    parameters: ClassVar[tuple[str, ...]] = ("variance",)
    per_column: ClassVar[str] = "variance"
    exact_features: ClassVar[bool] = True

    def features(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:
        """Columns ``x_d sqrt(variance_d)``, whose products are the kernel: it needs no landmarks."""
        (X,) = self._own_columns(X)
        return self._compact()._arranged(X) * jnp.sqrt(positive_values(log_params, X.dtype)["variance"])

    def _covariance(self, value: dict[str, jax.Array], X1: jax.Array, X2: jax.Array) -> jax.Array:
        return product(X1 * value["variance"], X2)

    def _diag(self, log_params: LogParameters, X: jax.Array) -> jax.Array:
        return jnp.sum(self.features(log_params, X) ** 2, axis=-1)

    def _default_starts(self, distance: float, share: float) -> dict[str, Any]:
        return {"variance": 0.1}

    def _prior(self, name: str, priors: Mapping[str, Prior]) -> Prior | None:
        return priors.get("linear")

    def _relevance(self, values: np.ndarray) -> np.ndarray:
        return np.sqrt(values / values.max())

    def _in_user_units(self, name: str, value: float, scale: float | None) -> float | None:
        return None if scale is None else math.sqrt(value) / scale


@dataclass(frozen=True)
class White(Leaf):
    """``variance`` of each individual on its own: what neither covariates nor neighbours explain, MATH (15).

    An effect of every individual, independent of all others, even of those with the same covariates. It has no
    columns and no landmarks. ``posterior(X, smooth=True)`` leaves it out.
    """

    variance: Start = None
    fixed: Any = ()
    parameters: ClassVar[tuple[str, ...]] = ("variance",)
    columns = ()
    ard = False
    local = True
    may_multiply = False

    def __post_init__(self) -> None:
        for name, value in (("variance", self._checked_start("variance")), ("fixed", self._checked_fixed())):
            object.__setattr__(self, name, value)

    def matrix(self, log_params: LogParameters, X1: ArrayLike, X2: ArrayLike) -> jax.Array:
        """Zero: rows of different arrays are different individuals."""
        X1, X2 = jnp.asarray(X1), jnp.asarray(X2)
        return jnp.zeros((*X1.shape[:-1], X2.shape[-2]), X1.dtype)

    def within(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:  # noqa: D102
        X = jnp.asarray(X)
        return positive_values(log_params, X.dtype)["variance"] * jnp.eye(X.shape[-2], dtype=X.dtype)

    def diag(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:  # noqa: D102
        return self._diag(log_params, jnp.asarray(X))

    def _matrix(self, log_params: LogParameters, X1: jax.Array, X2: jax.Array) -> jax.Array:
        return self.matrix(log_params, X1, X2)

    def _covariance(self, value: dict[str, jax.Array], X1: jax.Array, X2: jax.Array) -> jax.Array:
        return jnp.zeros((*X1.shape[:-1], X2.shape[-2]), X1.dtype)

    def _with(self, **changes: Any) -> White:
        return type(self)(**{**vars(self), **{name: value for name, value in changes.items() if name != "columns"}})

    def _resolved(self, names: tuple[str, ...]) -> White:
        return self

    def _start(self, X: np.ndarray | None, share: float) -> dict[str, np.ndarray]:
        return {"variance": np.asarray(np.log(self.variance or SHARE_OF_WHITE * share))}

    def _default_starts(self, distance: float, share: float) -> dict[str, Any]:
        return {"variance": SHARE_OF_WHITE * share}

    def _prior(self, name: str, priors: Mapping[str, Prior]) -> Prior | None:
        return priors.get("white")
