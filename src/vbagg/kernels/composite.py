"""Sums and products of kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import jax
import numpy as np
from jax.typing import ArrayLike

from vbagg.kernels.base import Kernel, Leaf, LogParameters
from vbagg.kernels.families import White


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
        if any(isinstance(leaf, White) for leaf in self._leaves()):
            raise ValueError("White() adds an effect of each individual and cannot be a factor of a product; add it.")
        first, *later = self.parts
        object.__setattr__(self, "parts", (first, *(part._with_unit_scale() for part in later)))

    @staticmethod
    def _join(one: jax.Array, other: jax.Array) -> jax.Array:
        return one * other

    def _start(self, X: np.ndarray | None, share: float) -> LogParameters:
        first, *later = self.parts
        return (first._start(X, share), *(part._start(X, 1.0) for part in later))
