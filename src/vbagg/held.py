"""Objects of one kind that live in this process or on workers, and what is asked of all of them at once.

A fit asks the portions of its data for sums. Where they live makes no difference to it: with all of them in one process
the sums have one part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

Kind = TypeVar("Kind")


def itself(thing: Kind) -> Kind:
    """The thing: `hold([thing]).made(itself)` brings it to a place once, for all that is asked of it there."""
    return thing


class Held(ABC, Generic[Kind]):
    """Objects in a fixed order."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def each(self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> list[Any]:
        """`function(object, *arguments)` of each object; with `own` one more argument, which differs, comes last."""

    @abstractmethod
    def hold(self, objects: Sequence[Any]) -> Held[Any]:
        """Other objects, for the places where these are."""

    @abstractmethod
    def spans(self, block: np.ndarray) -> list[tuple[int, int]]:
        """How to divide bags, whose blocks have these numbers, for these places: firsts, and those after the last."""

    @abstractmethod
    def in_order(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        """`function(object, item)` of each item in turn, with the one object that there is; few are ready ahead."""

    @abstractmethod
    def made(self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> Held[Any]:
        """The same results as objects that stay where they were made."""


class Here(Held[Kind]):
    """Objects in this process."""

    def __init__(self, objects: Sequence[Kind]) -> None:
        self.objects = list(objects)

    def __len__(self) -> int:
        return len(self.objects)

    def each(self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> list[Any]:  # noqa: D102
        last = [()] * len(self) if own is None else [(one,) for one in own]
        return [function(thing, *arguments, *more) for thing, more in zip(self.objects, last, strict=True)]

    def hold(self, objects: Sequence[Any]) -> Held[Any]:  # noqa: D102
        return Here(objects)

    def spans(self, block: np.ndarray) -> list[tuple[int, int]]:  # noqa: D102
        return [(0, len(block))]

    def in_order(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:  # noqa: D102
        (thing,) = self.objects
        return (function(thing, item) for item in items)

    def made(self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None) -> Held[Any]:  # noqa: D102
        return Here(self.each(function, *arguments, own=own))


@dataclass(frozen=True)
class Division:
    """Which bags of the data lie in which portion: positions (b) for each of them."""

    positions: tuple[np.ndarray, ...]

    @classmethod
    def whole(cls, n_bags: int) -> Division:
        """All bags in one portion."""
        return cls((np.arange(n_bags),))

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Numbers of bags by portion."""
        return [values[own] for own in self.positions]

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Numbers of bags in the order of the data."""
        order = np.argsort(np.concatenate(self.positions), kind="stable")
        return np.concatenate(parts)[order]
