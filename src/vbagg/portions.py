"""Portions of the data of a fit: whole bags that lie together, and the little that a fit must know of all of them.

Every bag lies in one block, and every block in one portion. Portions hand out one block after another, so that those in
files need no more memory than a block. What is found does not depend on how blocks are divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from vbagg.bags import Bags, BagTable
from vbagg.chunks import block_edges, block_numbers
from vbagg.held import Division, Held, Here
from vbagg.landmarks import shares
from vbagg.observed import codes_of_rows, fingerprints
from vbagg.stored import DistantRows

SAMPLE = 100_000
"""Individuals from whom starting values and landmarks are chosen; all of them if there are not more."""


class Block(NamedTuple):
    """Bags without rows of zero weight, and the known term of `f` of their rows."""

    bags: Bags
    offset: np.ndarray


class Source(Protocol):
    """A portion, or where it can be read."""

    def blocks(self) -> Iterator[Block]:
        """Its blocks, in order."""
        ...


class Portion(NamedTuple):
    """A portion in memory: bags without rows of zero weight, and the known term of `f` of their rows."""

    bags: Bags
    offset: np.ndarray
    edges: tuple[int, ...]
    """First bag of each block, and the one after the last."""

    def blocks(self) -> Iterator[Block]:
        """Views of the rows."""
        bags = self.bags
        for first, last in pairwise(self.edges):
            yield Block(bags[first:last], self.offset[bags.starts[first] : bags.starts[last]])


class StoredPortion(NamedTuple):
    """A portion in files: the rows of each block."""

    rows: tuple[DistantRows, ...]

    def blocks(self) -> Iterator[Block]:
        """Read one after another."""
        for own in self.rows:
            bags = bags_of(own.read())
            yield Block(bags, np.zeros(bags.n_individuals))


def bags_of(arguments: dict[str, Any]) -> Bags:
    """Bags that are made of these arguments, without rows of zero weight."""
    return Bags(**arguments).drop_zero_weight()


def portion_of(arguments: dict[str, Any], edges: tuple[int, ...]) -> Portion:
    """The portion of bags that are made of these arguments."""
    bags = bags_of(arguments)
    return Portion(bags, np.zeros(bags.n_individuals), edges)


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

    @classmethod
    def of_block(cls, bags: Bags, offset: np.ndarray) -> Outline:
        """Of the bags of a block."""
        marks = fingerprints(bags, offset)
        weights = bags.totals(), bags.weight_squares()
        return cls(bags.labels, bags.sizes, *weights, marks, bags.feature_names, bags.named, bags.coordinates)

    @classmethod
    def joined(cls, parts: Sequence[Outline]) -> Outline:
        """Of bags that follow each other."""
        names = ("labels", "sizes", "weights", "squares", "fingerprints")
        arrays: dict[str, Any] = {name: np.concatenate([getattr(own, name) for own in parts]) for name in names}
        return replace(parts[0], **arrays)


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
        block = block_numbers(bags.sizes)
        portion = Portion(bags, offset, tuple(block_edges(block)))
        return cls(Here([portion]), Division.whole(len(bags)), outline_of(portion), block)

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """`function(bags, *arguments)` of the bags of each block."""
        return [found for part in self.held.each(_of_blocks, function, *arguments) for found in part]

    def added(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Sum over all blocks of `function(bags, *arguments)`, in the same order however they are divided."""
        return sum(self.each(function, *arguments))

    @property
    def only(self) -> Portion:
        """The portion of data in this process."""
        assert isinstance(self.held, Here)
        assert len(self.held) == 1
        return self.held.objects[0]

    def sample(self, random_state: int) -> Sample:
        """All individuals, or some of them, drawn by their share.

        Priority sampling (Duffield, Lund and Thorup, 2007) with numbers that follow from each row itself.
        """
        n_bags = len(self.outline)
        size = None if self.outline.n_individuals <= SAMPLE else SAMPLE
        drawn = _stacked(self.held.each(_drawn, size, random_state))
        if size is None:
            return Sample(drawn.X, drawn.share, n_bags)
        order = np.argsort(-drawn.priority, kind="stable")
        kept = order[:size]
        return Sample(drawn.X[kept], np.maximum(drawn.share[kept], drawn.priority[order[size]]), n_bags)


def outline_of(source: Source) -> Outline:
    """What a fit knows of one portion."""
    return Outline.joined([Outline.of_block(*block) for block in source.blocks()])


def _of_blocks(source: Source, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return [function(bags, *arguments) for bags, _ in source.blocks()]


class _Drawn(NamedTuple):
    """Rows, the share of a bag that each is, and priorities by which some of them are chosen."""

    X: np.ndarray
    share: np.ndarray
    priority: np.ndarray

    def first(self, number: int | None) -> _Drawn:
        """The rows of highest priority, in their order; all where there is no number."""
        if number is None or len(self.share) <= number:
            return self
        first = np.sort(np.argpartition(-self.priority, number - 1)[:number])
        return _Drawn(*(values[first] for values in self))


def _drawn(source: Source, size: int | None, seed: int) -> _Drawn:
    """One row more than are wanted, or all."""
    most, found = None if size is None else size + 1, list[_Drawn]()
    for bags, _ in source.blocks():
        found = [_stacked([*found, _with_priorities(bags, seed)]).first(most)] if most else [*found, _all_drawn(bags)]
    return _stacked(found)


def _with_priorities(bags: Bags, seed: int) -> _Drawn:
    share = shares(bags.weight, bags.bag)
    uniform = (codes_of_rows(*bags.X.T, bags.weight, np.full(len(share), float(seed))) >> np.uint64(11)) + 1
    return _Drawn(bags.X, share, share / (uniform * 2.0**-53))


def _all_drawn(bags: Bags) -> _Drawn:
    share = shares(bags.weight, bags.bag)
    return _Drawn(bags.X, share, share)


def _stacked(parts: Sequence[_Drawn]) -> _Drawn:
    return _Drawn(*(np.concatenate(values) for values in zip(*parts, strict=True)))
