"""Portions of the data of a fit: whole bags that lie together, and the little that a fit must know of all of them.

Every bag lies in one portion. What is found does not depend on how bags are divided, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from vbagg.bags import Bags, BagTable
from vbagg.chunks import block_numbers
from vbagg.held import Division, Held, Here
from vbagg.landmarks import shares
from vbagg.observed import codes_of_rows, fingerprints
from vbagg.stored import StoredRows

SAMPLE = 100_000
"""Individuals from whom starting values and landmarks are chosen; all of them if there are not more."""


class Portion(NamedTuple):
    """Bags without rows of zero weight, and the known term of `f` of their rows."""

    bags: Bags
    offset: np.ndarray

    def load(self) -> Portion:
        """Itself: it is here already."""
        return self


class StoredPortion(NamedTuple):
    """A portion in files."""

    rows: StoredRows

    def load(self) -> Portion:
        """Read it."""
        return portion_of(self.rows.read())


def portion_of(arguments: dict[str, Any]) -> Portion:
    """The portion of bags that are made of these arguments."""
    used = Bags(**arguments).drop_zero_weight()
    return Portion(used, np.zeros(used.n_individuals))


class Source(Protocol):
    """A portion, or where it can be read."""

    def load(self) -> Portion:
        """The portion."""
        ...


@dataclass(frozen=True)
class Outline(BagTable):
    """What a fit knows of all bags: labels, sizes and sums of weights."""

    labels: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray
    squares: np.ndarray
    fingerprints: np.ndarray
    feature_names: tuple[str, ...]
    named: bool
    coordinates: tuple[int, ...]

    @property
    def n_individuals(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    def totals(self) -> np.ndarray:
        """Sum of the weights of each bag (b,)."""
        return self.weights

    def weight_squares(self) -> np.ndarray:
        """Sum of the squared weights of each bag (b,)."""
        return self.squares


class Sample(NamedTuple):
    """Individuals from all over the data, in the user's units, and the share of a bag that each stands for."""

    X: np.ndarray
    share: np.ndarray
    n_bags: int


@dataclass(frozen=True)
class Portions:
    """All portions of a data set."""

    held: Held[Source]
    division: Division
    outline: Outline
    block: np.ndarray
    """(b) number of the block of each bag."""

    @classmethod
    def of(cls, bags: Bags, offset: np.ndarray) -> Portions:
        """One portion of bags in this process, which have no rows of zero weight."""
        portion = Portion(bags, offset)
        return cls(Here([portion]), Division.whole(len(bags)), outline_of(portion), block_numbers(bags.sizes))

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """`function(bags, *arguments)` of the bags of each portion."""
        return self.held.each(_of_bags, function, *arguments)

    def added(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Sum over all blocks of `function(bags, *arguments)`, in the same order however they are divided."""
        parts = self.held.each(_of_blocks, function, arguments, own=self.division.split(self.block))
        return sum(one for part in parts for one in part)

    @property
    def only(self) -> Portion:
        """The portion of data in this process."""
        assert isinstance(self.held, Here)
        assert len(self.held) == 1
        return self.held.objects[0].load()

    def sample(self, random_state: int) -> Sample:
        """All individuals, or some of them, drawn by their share.

        Priority sampling (Duffield, Lund and Thorup, 2007) with numbers that follow from each row itself.
        """
        n_bags = len(self.outline)
        size = None if self.outline.n_individuals <= SAMPLE else SAMPLE
        parts = self.each(_first_by_priority, size, random_state)
        X, share, priority = (np.concatenate(part) for part in zip(*parts, strict=True))
        if size is None:
            return Sample(X, share, n_bags)
        order = np.argsort(-priority, kind="stable")
        kept = order[:size]
        return Sample(X[kept], np.maximum(share[kept], priority[order[size]]), n_bags)


def outline_of(source: Source) -> Outline:
    """What a fit knows of one portion."""
    bags, offset = source.load()
    return Outline(
        bags.labels,
        bags.sizes,
        bags.totals(),
        bags.weight_squares(),
        fingerprints(bags, offset),
        bags.feature_names,
        bags.named,
        bags.coordinates,
    )


def _of_bags(source: Source, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(source.load().bags, *arguments)


def _of_blocks(
    source: Source, function: Callable[..., Any], arguments: tuple[Any, ...], block: np.ndarray
) -> list[Any]:
    bags = source.load().bags
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    return [function(bags[first:last], *arguments) for first, last in pairwise([*starts, len(block)])]


def _first_by_priority(bags: Bags, size: int | None, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, shares and priorities of one row more than are wanted, or of all."""
    share = shares(bags.weight, bags.bag)
    if size is None:
        return bags.X, share, share
    uniform = (codes_of_rows(*bags.X.T, bags.weight, np.full(len(share), float(seed))) >> np.uint64(11)) + 1
    priority = share / (uniform * 2.0**-53)
    if len(share) > size + 1:
        first = np.sort(np.argpartition(-priority, size)[: size + 1])
        return bags.X[first], share[first], priority[first]
    return bags.X, share, priority
