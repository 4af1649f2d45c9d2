"""What all kernels share, and kernels made of others: sums and products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from vbagg.kernels.columns import take_columns

if TYPE_CHECKING:
    from vbagg.kernels.leaf import Leaf

LogParameters = Any  # {parameter: array} for a leaf, a tuple of trees for a Sum or Product


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


@dataclass(frozen=True)
class Composite(Kernel):
    """Kernels joined by one operation; nested ones of the same class are flattened."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Kernel) for part in self.parts):
            raise TypeError(f"`parts` of {type(self).__name__} must be kernels; got {self.parts!r}.")
        nested = (part.parts if type(part) is type(self) else (part,) for part in self.parts)
        object.__setattr__(self, "parts", sum(nested, ()))

    @property
    def local(self) -> bool:
        """Whether a part has no landmarks, so that the whole has none."""
        return any(part.local for part in self.parts)

    def within(self, log_params: LogParameters, X: ArrayLike) -> jax.Array:  # noqa: D102
        return reduce(self._join, (part.within(tree, X) for part, tree in self._pairs(log_params)))

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

    def components(self) -> tuple[Kernel, ...]:  # noqa: D102
        return self.parts

    @staticmethod
    def _join(one: jax.Array, other: jax.Array) -> jax.Array:
        return one + other

    def _start(self, X: np.ndarray | None, share: float) -> LogParameters:
        nonlinear = sum(part.needs_landmarks for part in self.parts)
        return tuple(part._start(X, share / max(nonlinear, 1)) for part in self.parts)


class Product(Composite):
    """``k1 * k2 * ...`` with one scale: only the first factor has a variance to learn.

    Later factors have variance 1, fixed: a later `Sum` in its first term, a later `Linear` in each column
    (so put a `Linear` with learnt variances first).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for leaf in self._leaves():
            if not leaf.may_multiply:
                raise ValueError(
                    f"{leaf._name}() adds an effect of each individual and cannot be a factor of a product; add it."
                )
        first, *later = self.parts
        object.__setattr__(self, "parts", (first, *(part._with_unit_scale() for part in later)))

    @staticmethod
    def _join(one: jax.Array, other: jax.Array) -> jax.Array:
        return one * other

    def _start(self, X: np.ndarray | None, share: float) -> LogParameters:
        first, *later = self.parts
        return (first._start(X, share), *(part._start(X, 1.0) for part in later))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_dict()
    return [_jsonable(item) for item in value] if isinstance(value, tuple) else value
