"""Covariance functions: the structure is an object, the numbers are a separate tree.

A kernel says which columns it sees and which parameters it has. It is immutable and hashable, so it can be a
static argument of ``jax.jit``. Its numbers are logarithms: a dict per leaf, a tuple per `Sum` or `Product`.

>>> kernel = Linear("rain") + Matern32(["x", "y"])
>>> kernel = kernel.resolve(("rain", "x", "y"))
>>> log_params = kernel.initial_log_parameters()
>>> sorted(log_params[1])
['lengthscale', 'variance']

Then ``kernel.matrix(log_params, X1, X2)`` is (n1, n2) in the precision of ``X1`` and ``X2``. Starting values
and the numbers in the tree are in the units of those arrays, which the models standardise.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy.spatial.distance import pdist

LogParameters = Any  # {parameter: array} for a leaf, a tuple of trees for a Sum or Product
Start = float | tuple[float, ...] | None

DIRECT_COLUMNS = 2  # up to here plain differences are as fast as a matrix product, and more accurate
MEDIAN_ROWS = 1000


class Kernel(ABC):
    """What leaves, sums and products share."""

    exact_features: ClassVar[bool] = False

    def __add__(self, other: Kernel) -> Sum:
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        return Product((self, other)) if isinstance(other, Kernel) else NotImplemented

    def matrix(self, log_params: LogParameters, X1: ArrayLike, X2: ArrayLike) -> jax.Array:
        """Covariances (n1, n2) between the rows of ``X1`` and those of ``X2``; leading axes are batches.

        Each array holds all columns, or only those of ``columns_used``, in that order.
        """
        return self._compact()._matrix(log_params, *self._own_columns(X1, X2))

    def diag(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:
        """Variances (n,) at the rows of ``X``, whose columns are as for `matrix`."""
        return self._compact()._diag(log_params, *self._own_columns(X))

    def components(self) -> tuple[Kernel, ...]:
        """Return the additive terms: those of a `Sum`, else the kernel alone."""
        return self.parts if isinstance(self, Sum) else (self,)

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
        return [_take_columns(jnp.asarray(X, dtype), self.columns_used) for X in arrays]

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
        if not isinstance(self.ard, bool):
            raise TypeError(f"`ard` of {self._name} must be True or False; got {self.ard!r}.")
        checked: dict[str, Any] = {name: self._checked_start(name) for name in self.parameters}
        checked["columns"] = _checked_columns(self.columns)
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
        value = _positive(log_params, X1.dtype)
        return self._covariance(value, self._arranged(X1), self._arranged(X2))

    def _diag(self, log_params: LogParameters, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(_positive(log_params, X.dtype)["variance"], X.shape[:-1])

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
        leaf = self._with(columns=[_column_number(column, names) for column in columns])
        start = getattr(self, self.per_column)
        if isinstance(start, tuple) and len(start) != len(leaf.columns):
            raise ValueError(
                f"`{self.per_column}` of {self._name} must have one value per column; "
                f"got {len(start)} for the columns {[names[c] for c in leaf.columns]}."
            )
        return leaf

    def _start(self, X: np.ndarray | None, share: float) -> dict[str, np.ndarray]:
        columns = self.column_numbers
        distance = _typical_distance(len(columns)) if X is None else median_distance(X[:, columns])
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
        typical = self._default_starts(_typical_distance(len(self.column_numbers)), 1.0)[name]
        return Prior(prior.median * typical, prior.log_sd)

    def _relevance(self, values: np.ndarray) -> np.ndarray:
        return values.min() / values

    def _in_user_units(self, name: str, value: float, scale: float | None) -> float | None:
        if name != self.in_column_units:
            return value
        return None if scale is None else value * scale


@dataclass(frozen=True)
class Stationary(Leaf):
    """``variance * correlation(r)``, where r is the distance in length-scales.

    Parameters
    ----------
    columns : name, number or several of them; None for all
    ard : whether each column has its own length-scale
    variance, lengthscale : starting values; with ``ard`` the length-scale may be a tuple
    fixed : names of parameters that stay at their starting value
    """

    columns: Any = None
    ard: bool = False
    variance: Start = None
    lengthscale: Start = None
    fixed: Any = ()

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
        return jnp.exp(-_safe_sqrt(r2))


class Matern32(Stationary):
    """``(1 + a) exp(-a)``, ``a = sqrt(3) r``, once differentiable; parameters as `Stationary`."""

    reach = 0.3

    @staticmethod
    def _correlation(r2: jax.Array) -> jax.Array:
        a = math.sqrt(3.0) * _safe_sqrt(r2)
        return (1.0 + a) * jnp.exp(-a)


class Matern52(Stationary):
    """``(1 + a + a^2/3) exp(-a)``, ``a = sqrt(5) r``, twice differentiable; parameters as `Stationary`."""

    reach = 0.3

    @staticmethod
    def _correlation(r2: jax.Array) -> jax.Array:
        a = math.sqrt(5.0) * _safe_sqrt(r2)
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
        sines = (jnp.sin(jnp.pi / value["period"] * difference) for difference in _differences(X1, X2))
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
        return self._compact()._arranged(X) * jnp.sqrt(_positive(log_params, X.dtype)["variance"])

    def _covariance(self, value: dict[str, jax.Array], X1: jax.Array, X2: jax.Array) -> jax.Array:
        return _product(X1 * value["variance"], X2)

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
class Composite(Kernel):
    """Kernels joined by one operation; nested ones of the same class are flattened."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Kernel) for part in self.parts):
            raise TypeError(f"`parts` of {type(self).__name__} must be kernels; got {self.parts!r}.")
        nested = (part.parts if type(part) is type(self) else (part,) for part in self.parts)
        object.__setattr__(self, "parts", sum(nested, ()))

    @staticmethod
    @abstractmethod
    def _join(one: jax.Array, other: jax.Array) -> jax.Array: ...

    def _matrix(self, log_params: LogParameters, X1: jax.Array, X2: jax.Array) -> jax.Array:
        return reduce(self._join, (part._matrix(tree, X1, X2) for part, tree in self._pairs(log_params)))

    def _diag(self, log_params: LogParameters, X: jax.Array) -> jax.Array:
        return reduce(self._join, (part._diag(tree, X) for part, tree in self._pairs(log_params)))

    def _pairs(self, log_params: LogParameters) -> Iterator[tuple[Kernel, LogParameters]]:
        return zip(self.parts, log_params, strict=True)

    def _leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part._leaves()

    def _map_leaves(self, change: Callable[[Any], Any]) -> Self:
        return type(self)(tuple(part._map_leaves(change) for part in self.parts))

    def _with_unit_scale(self) -> Self:
        return type(self)((self.parts[0]._with_unit_scale(), *self.parts[1:]))


class Sum(Composite):
    """``k1 + k2 + ...``: independent functions that add up."""

    @staticmethod
    def _join(one: jax.Array, other: jax.Array) -> jax.Array:
        return one + other

    def _start(self, X: np.ndarray | None, share: float) -> LogParameters:
        nonlinear = sum(not part.exact_features for part in self.parts)
        return tuple(part._start(X, share / max(nonlinear, 1)) for part in self.parts)


class Product(Composite):
    """``k1 * k2 * ...`` with one scale: only the first factor has a variance to learn.

    Later factors have variance 1, fixed: a later `Sum` in its first term, a later `Linear` in each column
    (so put a `Linear` with learnt variances first).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        first, *later = self.parts
        object.__setattr__(self, "parts", (first, *(part._with_unit_scale() for part in later)))

    @staticmethod
    def _join(one: jax.Array, other: jax.Array) -> jax.Array:
        return one * other

    def _start(self, X: np.ndarray | None, share: float) -> LogParameters:
        first, *later = self.parts
        return (first._start(X, share), *(part._start(X, 1.0) for part in later))


KINDS = {kind.__name__: kind for kind in (RBF, Matern12, Matern32, Matern52, Linear, Periodic, Sum, Product)}


def from_dict(values: Mapping[str, Any]) -> Kernel:
    """Return the kernel that `Kernel.to_dict` described."""
    fields = dict(values)
    kind = fields.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"The `kind` of a kernel must be one of {list(KINDS)}; got {kind!r}.")
    if "parts" in fields:
        fields["parts"] = tuple(from_dict(part) for part in fields["parts"])
    return KINDS[kind](**fields)


def trainable_mask(kernel: Kernel) -> Any:
    """Return a tree like the log-parameters that tells which of them are learnt."""
    if isinstance(kernel, Composite):
        return tuple(trainable_mask(part) for part in kernel.parts)
    (leaf,) = kernel._leaves()
    return {name: name not in leaf.fixed for name in leaf.parameters}


def leaves(kernel: Kernel, log_params: LogParameters) -> Iterator[tuple[Leaf, dict[str, Any]]]:
    """Iterate over the leaves of a kernel, each with its own log-parameters."""
    if isinstance(kernel, Composite):
        for part, tree in kernel._pairs(log_params):
            yield from leaves(part, tree)
    else:
        (leaf,) = kernel._leaves()
        yield leaf, log_params


def with_values(kernel: Kernel, log_params: LogParameters) -> Kernel:
    """Return the kernel whose starting values are these parameters."""
    if isinstance(kernel, Composite):
        parts = tuple(with_values(part, tree) for part, tree in zip(kernel.parts, log_params, strict=True))
        return type(kernel)(parts)
    values = {name: np.exp(value) for name, value in log_params.items()}
    assert isinstance(kernel, Leaf)
    return kernel._with(**{name: value.tolist() for name, value in values.items()})


@dataclass(frozen=True)
class Prior:
    """Log-normal prior of a positive parameter."""

    median: float
    log_sd: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise ValueError(f"`{name}` of a Prior must be positive and finite; got {value}.")

    def log_density(self, log_value: Any) -> Any:
        """Log density of the logarithm, with respect to d log(value)."""
        z = (log_value - math.log(self.median)) / self.log_sd
        return -0.5 * z**2 - math.log(self.log_sd * math.sqrt(2.0 * math.pi))


def default_priors() -> dict[str, Prior]:
    """Return weak priors for standardised columns, as median and sd of the logarithm.

    - ``variance``: 1 and 1.5
    - ``linear``, each variance of a `Linear`: 0.1 and 1.5
    - ``lengthscale``: 1 and 1, in multiples of sqrt(2 d) for d columns, ARD or not (`Periodic`: of sqrt(d))
    - ``period``: 1 and 0.5, in multiples of the user's starting period (none: of sqrt(2 d))
    """
    return {
        "variance": Prior(1.0, 1.5),
        "linear": Prior(0.1, 1.5),
        "lengthscale": Prior(1.0, 1.0),
        "period": Prior(1.0, 0.5),
    }


def log_prior(kernel: Kernel, log_params: LogParameters, priors: Mapping[str, Prior] | None) -> jax.Array | float:
    """Sum the log densities of the trainable log-parameters that have a prior; zero without priors.

    The medians of "lengthscale" and "period" are multiples of the typical values in `default_priors`.
    """
    if priors is None:
        return 0.0
    if unknown := sorted(set(priors) - set(default_priors())):
        raise ValueError(f"`priors` must have keys among {list(default_priors())}; got {unknown}.")
    densities = (
        jnp.sum(prior.log_density(tree[name]))
        for leaf, tree in leaves(kernel, log_params)
        for name in leaf.parameters
        if name not in leaf.fixed and (prior := leaf._prior(name, priors)) is not None
    )
    return sum(densities, 0.0)


def describe(
    kernel: Kernel,
    log_params: LogParameters,
    feature_names: Sequence[str],
    scales: Sequence[float] | np.ndarray,
) -> list[dict[str, Any]]:
    """List the parameters as rows of a table, with ARD one row per column.

    Parameters
    ----------
    feature_names, scales : the name of every column, and the scale it was divided by

    Returns
    -------
    Rows with the keys ``component`` (number of the additive term), ``kernel``, ``parameter``, ``columns``
    (names), ``value`` (standardised units), ``user_value``, ``relevance`` and ``fixed``.

    - ``user_value`` of a length-scale or period is multiplied by the scale of its columns (None where they
      differ); of a `Linear` variance it is the prior sd of the slope per user unit.
    - ``relevance``, with ARD only, is 1 / length-scale (`Linear`: slope sd), at most 1.
    """
    kernel = kernel.resolve(feature_names)
    trees = log_params if isinstance(kernel, Sum) else (log_params,)
    scales = np.asarray(scales, dtype=np.float64)
    return [
        {"component": number, **row}
        for number, (component, tree) in enumerate(zip(kernel.components(), trees, strict=True))
        for leaf, leaf_tree in leaves(component, tree)
        for name in leaf.parameters
        for row in _rows(leaf, name, np.exp(np.asarray(leaf_tree[name], np.float64)), feature_names, scales)
    ]


def _rows(
    leaf: Leaf, name: str, values: np.ndarray, feature_names: Sequence[str], scales: np.ndarray
) -> Iterator[dict[str, Any]]:
    groups = [(column,) for column in leaf.column_numbers] if values.ndim else [leaf.column_numbers]
    relevances = leaf._relevance(values).tolist() if values.ndim else [None]
    for columns, value, relevance in zip(groups, np.atleast_1d(values).tolist(), relevances, strict=True):
        own = scales[list(columns)]
        shared = float(own[0]) if np.allclose(own, own[0], rtol=1e-9, atol=0.0) else None
        yield {
            "kernel": type(leaf).__name__,
            "parameter": name,
            "columns": tuple(feature_names[column] for column in columns),
            "value": value,
            "user_value": leaf._in_user_units(name, value, shared),
            "relevance": relevance,
            "fixed": name in leaf.fixed,
        }


def squared_distances(X1: jax.Array, X2: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Squared distances (n1, n2) in length-scales, one or one per column; exactly zero between equal rows.

    A common length-scale is applied last: its gradient then needs no further pass over the columns.
    """
    if lengthscale.size > 1:
        centre = _centre(X2)  # first, since scaling rounds too
        return _distances_by_product((X1 - centre) / lengthscale, (X2 - centre) / lengthscale)
    if X1.shape[-1] <= DIRECT_COLUMNS:
        r2 = reduce(operator.add, (difference**2 for difference in _differences(X1, X2)))
    else:
        r2 = _distances_by_product(X1 - _centre(X2), X2 - _centre(X2))
    return r2 / lengthscale.reshape(()) ** 2


def _distances_by_product(X1: jax.Array, X2: jax.Array) -> jax.Array:
    """``|x|^2 + |z|^2 - 2 x.z``, and zero where that does not exceed its own rounding error."""
    norms = jnp.sum(X1**2, axis=-1)[..., :, None] + jnp.sum(X2**2, axis=-1)[..., None, :]
    r2 = norms - 2.0 * _product(X1, X2)
    rounding = (X1.shape[-1] + 2) * jnp.finfo(X1.dtype).eps * norms
    return jnp.where(r2 > rounding, r2, 0.0)


def _centre(X: jax.Array) -> jax.Array:
    # distances do not depend on it, so neither do gradients
    return jax.lax.stop_gradient(jnp.mean(X, axis=-2, keepdims=True))


def median_distance(X: np.ndarray) -> float:
    """Median distance between distinct rows of ``X``, 1 if there is only one.

    Of more than 1,000 distinct rows it takes 1,000, evenly spaced in lexicographic order.
    """
    rows = np.unique(X, axis=0)
    if len(rows) > MEDIAN_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MEDIAN_ROWS).round().astype(int)]
    return float(np.median(pdist(rows))) if len(rows) > 1 else 1.0


def _typical_distance(n_columns: int) -> float:
    return math.sqrt(2.0 * n_columns)  # E |x - x'|^2 = 2 d for standardised columns


def _product(X1: jax.Array, X2: jax.Array) -> jax.Array:
    # accelerators multiply float32 in a lower precision unless told otherwise
    return jnp.matmul(X1, X2.mT, precision=jax.lax.Precision.HIGHEST)


def _differences(X1: jax.Array, X2: jax.Array) -> Iterator[jax.Array]:
    """Yield ``x_d - z_d`` for all pairs of rows, one column at a time."""
    for d in range(X1.shape[-1]):
        yield X1[..., :, None, d] - X2[..., None, :, d]


def _safe_sqrt(r2: jax.Array) -> jax.Array:
    """Square root whose gradient at zero is zero."""
    positive = r2 > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, r2, 1.0)), 0.0)


def _take_columns(X: jax.Array, used: tuple[int, ...]) -> jax.Array:
    if X.shape[-1] == len(used):  # its own columns; all columns only if it uses all
        return X
    if max(used) >= X.shape[-1]:
        raise ValueError(
            f"A kernel on the columns {list(used)} needs an array of all columns, or of these {len(used)}; "
            f"got {X.shape[-1]} columns."
        )
    return X[..., np.array(used)]


def _positive(log_params: Mapping[str, ArrayLike], dtype: Any) -> dict[str, jax.Array]:
    return {name: jnp.exp(jnp.asarray(value)).astype(dtype) for name, value in log_params.items()}


def _jsonable(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_dict()
    return [_jsonable(item) for item in value] if isinstance(value, tuple) else value


def _checked_columns(columns: Any) -> tuple[int | str, ...] | None:
    if columns is None:
        return None
    several = (columns,) if isinstance(columns, str) or not isinstance(columns, Iterable) else tuple(columns)
    if not several or not all(isinstance(c, str | Integral) and not isinstance(c, bool) for c in several):
        raise TypeError(f"`columns` must be one or more names or numbers; got {columns!r}.")
    if len(set(several)) < len(several):
        raise ValueError(f"`columns` must not repeat a column; got {columns!r}.")
    return tuple(str(c) if isinstance(c, str) else int(c) for c in several)


def _column_number(column: int | str, names: tuple[str, ...]) -> int:
    if isinstance(column, str) and column not in names:
        raise ValueError(f"A kernel's `columns` must be among the features {list(names)}; got {column!r}.")
    number = names.index(column) if isinstance(column, str) else column
    if not 0 <= number < len(names):
        raise ValueError(
            f"A kernel's column number must be from 0 to {len(names) - 1}; got {number}. "
            f"The features are {list(names)}."
        )
    return number
