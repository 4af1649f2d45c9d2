"""A kernel with parameters of its own: what all families share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from vbagg.kernels.base import Kernel, LogParameters
from vbagg.kernels.columns import checked_columns, column_number
from vbagg.kernels.distances import median_distance, typical_distance
from vbagg.kernels.prior import Prior

Start = float | tuple[float, ...] | None


class Leaf(Kernel):
    """A kernel with parameters of its own."""

    columns: Any
    ard: bool
    variance: Start
    fixed: Any
    parameters: ClassVar[tuple[str, ...]] = ("variance", "lengthscale")
    per_column: ClassVar[str] = "lengthscale"  # the parameter that `ard` gives to each column
    in_column_units: ClassVar[str] = "lengthscale"
    may_multiply: ClassVar[bool] = True
    """Whether it can be a factor of a product."""

    def __post_init__(self) -> None:
        for name in ("ard", "local"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"`{name}` of {self._name} must be True or False; got {getattr(self, name)!r}.")
        checked: dict[str, Any] = {name: self._checked_start(name) for name in self.parameters}
        checked["columns"] = checked_columns(self.columns)
        checked["fixed"] = self._checked_fixed()
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def column_numbers(self) -> tuple[int, ...]:
        """The columns as numbers, in the order of the per-column parameters."""
        if self.columns is None or any(isinstance(column, str) for column in self.columns):
            raise ValueError(
                f"The columns of {self._name} must be numbers here; got {self.columns!r}. "
                "Call `kernel.resolve(feature_names)` first."
            )
        return self.columns

    @abstractmethod
    def _covariance(self, value: dict[str, jax.Array], X1: jax.Array, X2: jax.Array) -> jax.Array:
        """Return the matrix from positive parameter values and the kernel's own columns."""

    @abstractmethod
    def _default_starts(self, distance: float, share: float) -> dict[str, Any]: ...

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _with(self, **changes: Any) -> Self:
        return type(self)(**{**vars(self), **changes})

    def _matrix(self, log_params: LogParameters, X1: jax.Array, X2: jax.Array) -> jax.Array:
        value = positive_values(log_params, X1.dtype)
        return self._covariance(value, self._arranged(X1), self._arranged(X2))

    def _diag(self, log_params: LogParameters, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(positive_values(log_params, X.dtype)["variance"], X.shape[:-1])

    def _leaves(self) -> Iterator[Leaf]:
        yield self

    def _map_leaves(self, change: Callable[[Any], Any]) -> Self:
        return change(self)

    def _arranged(self, X: jax.Array) -> jax.Array:
        in_place = self.columns == tuple(range(X.shape[-1]))
        return X if in_place else X[..., np.array(self.columns)]

    def _checked_start(self, name: str) -> Start:
        value = getattr(self, name)
        if value is None:
            return None
        many = self.ard and name == self.per_column
        numbers = np.asarray(value, dtype=np.float64)
        if numbers.ndim > many or numbers.size == 0 or not np.all(np.isfinite(numbers) & (numbers > 0)):
            wanted = "positive: a number, or a tuple with one per column" if many else "one positive number"
            remedy = " Use ard=True for a value per column." if name == self.per_column and not many else ""
            raise ValueError(f"`{name}` of {self._name} must be {wanted}; got {value!r}.{remedy}")
        return tuple(numbers.tolist()) if numbers.ndim else float(numbers)

    def _checked_fixed(self) -> tuple[str, ...]:
        fixed = (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)
        if unknown := [name for name in fixed if name not in self.parameters]:
            known = list(self.parameters)
            raise ValueError(f"`fixed` of {self._name} must name parameters among {known}; got {unknown}.")
        return tuple(name for name in self.parameters if name in fixed)

    def _resolved(self, names: tuple[str, ...]) -> Self:
        columns = range(len(names)) if self.columns is None else self.columns
        leaf = self._with(columns=[column_number(column, names) for column in columns])
        start = getattr(self, self.per_column)
        if isinstance(start, tuple) and len(start) != len(leaf.columns):
            raise ValueError(
                f"`{self.per_column}` of {self._name} must have one value per column; "
                f"got {len(start)} for the columns {[names[c] for c in leaf.columns]}."
            )
        return leaf

    def _start(self, X: np.ndarray | None, share: float) -> dict[str, np.ndarray]:
        columns = self.column_numbers
        distance = typical_distance(len(columns)) if X is None else median_distance(X[:, columns])
        starts = self._default_starts(distance, share)
        starts |= {name: given for name in self.parameters if (given := getattr(self, name)) is not None}
        if self.ard:
            starts[self.per_column] = np.broadcast_to(starts[self.per_column], (len(columns),))
        return {name: np.asarray(np.log(starts[name])) for name in self.parameters}

    def _with_unit_scale(self) -> Self:
        if self.variance not in (None, 1.0):
            raise ValueError(
                f"Only the first factor of a product has a variance; got variance={self.variance} on a later "
                f"{self._name}. Leave it out and give the variance to the first factor."
            )
        return self._with(variance=1.0, fixed=(*self.fixed, "variance"))

    def _prior(self, name: str, priors: Mapping[str, Prior]) -> Prior | None:
        prior = priors.get(name)
        if prior is None or name == "variance":
            return prior
        typical = self._default_starts(typical_distance(len(self.column_numbers)), 1.0)[name]
        return Prior(prior.median * typical, prior.log_sd)

    def _relevance(self, values: np.ndarray) -> np.ndarray:
        return values.min() / values

    def _in_user_units(self, name: str, value: float, scale: float | None) -> float | None:
        if name != self.in_column_units:
            return value
        return None if scale is None else value * scale


def positive_values(log_params: Mapping[str, ArrayLike], dtype: Any) -> dict[str, jax.Array]:
    """Parameters from their logarithms, in the precision of the arrays."""
    return {name: jnp.exp(jnp.asarray(value)).astype(dtype) for name, value in log_params.items()}
