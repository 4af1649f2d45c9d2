"""What all kernels share, and what all with parameters of their own share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from vbagg.kernels.columns import checked_columns, column_number, take_columns
from vbagg.kernels.distances import median_distance, typical_distance
from vbagg.kernels.prior import Prior

if TYPE_CHECKING:
    from vbagg.kernels.composite import Product, Sum

LogParameters = Any  # {parameter: array} for a leaf, a tuple of trees for a Sum or Product
Start = float | tuple[float, ...] | None


class Kernel(ABC):
    """What leaves, sums and products share."""

    exact_features: ClassVar[bool] = False
    """Whether a few columns of features are the whole kernel."""

    local: Any = False
    """Whether it has no landmarks: correlated within bags, independent between them, MATH (15)."""

    @property
    def needs_landmarks(self) -> bool:
        """Whether its features come from landmarks."""
        return not (self.exact_features or self.local)

    def __add__(self, other: Kernel) -> Sum:
        from vbagg.kernels.composite import Sum

        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        from vbagg.kernels.composite import Product

        return Product((self, other)) if isinstance(other, Kernel) else NotImplemented

    def matrix(self, log_params: LogParameters, X1: ArrayLike, X2: ArrayLike) -> jax.Array:
        """Covariances (n1, n2) between the rows of ``X1`` and those of ``X2``; leading axes are batches.

        Each array holds all columns, or only those of ``columns_used``, in that order.
        """
        return self._compact()._matrix(log_params, *self._own_columns(X1, X2))

    def diag(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:
        """Variances (n,) at the rows of ``X``, whose columns are as for `matrix`."""
        return self._compact()._diag(log_params, *self._own_columns(X))

    def within(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:
        """Covariances (n, n) among individuals with the rows of ``X``; a row is itself, not another alike."""
        return self.matrix(log_params, X, X)

    def between(self, log_params: LogParameters, X1: jax.Array, X2: jax.Array) -> jax.Array:
        """Covariances (n,) of each row of ``X1`` with the same row of ``X2``."""
        return self.matrix(log_params, X1[..., None, :], X2[..., None, :])[..., 0, 0]

    def components(self) -> tuple[Kernel, ...]:
        """Return the additive terms: those of a `Sum`, else the kernel alone."""
        return (self,)

    @property
    def columns_used(self) -> tuple[int, ...]:
        """The numbers of the columns that a resolved kernel sees, sorted."""
        return tuple(sorted({column for leaf in self._leaves() for column in leaf.column_numbers}))

    def resolve(self, feature_names: Sequence[str]) -> Self:
        """Replace names (and "all") by column numbers, after checking that they exist."""
        names = tuple(feature_names)
        return self._map_leaves(lambda leaf: leaf._resolved(names))

    def initial_log_parameters(self, X: ArrayLike | None = None, variance: float = 1.0) -> LogParameters:
        """Return the starting tree in float64: the user's values where given, else defaults.

        Variances start at ``variance`` / (number of terms that are not `Linear`), a `Linear` variance at 0.1, a
        length-scale at the median distance between distinct rows of the standardised ``X``, or, without
        ``X``, at sqrt(2 d) for d columns. Leave zero-weight rows out of ``X``.
        """
        return self._start(None if X is None else np.asarray(X, dtype=np.float64), variance)

    def to_dict(self) -> dict[str, Any]:
        """Return the structure as JSON-able values; `from_dict` reverses it."""
        return {"kind": type(self).__name__, **{name: _jsonable(value) for name, value in vars(self).items()}}

    def _compact(self) -> Self:
        """Return the same kernel for arrays that hold only its own columns."""
        place = {column: position for position, column in enumerate(self.columns_used)}
        return self._map_leaves(lambda leaf: leaf._with(columns=[place[c] for c in leaf.column_numbers]))

    def _own_columns(self, *arrays: ArrayLike) -> list[jax.Array]:
        dtype = jnp.result_type(*arrays, float)
        return [take_columns(jnp.asarray(X, dtype), self.columns_used) for X in arrays]

    @abstractmethod
    def _matrix(self, log_params: LogParameters, X1: jax.Array, X2: jax.Array) -> jax.Array: ...

    @abstractmethod
    def _diag(self, log_params: LogParameters, X: jax.Array) -> jax.Array: ...

    @abstractmethod
    def _leaves(self) -> Iterator[Leaf]: ...

    @abstractmethod
    def _map_leaves(self, change: Callable[[Any], Any]) -> Self: ...

    @abstractmethod
    def _start(self, X: np.ndarray | None, share: float) -> LogParameters: ...

    @abstractmethod
    def _with_unit_scale(self) -> Self: ...


class Leaf(Kernel):
    """A kernel with parameters of its own."""

    columns: Any
    ard: bool
    variance: Start
    fixed: Any
    parameters: ClassVar[tuple[str, ...]] = ("variance", "lengthscale")
    per_column: ClassVar[str] = "lengthscale"  # the parameter that `ard` gives to each column
    in_column_units: ClassVar[str] = "lengthscale"

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


def _jsonable(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_dict()
    return [_jsonable(item) for item in value] if isinstance(value, tuple) else value
