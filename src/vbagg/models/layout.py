"""How the individuals of a fit are laid out in arrays: decided once, from the data and what the inference asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbagg.chunks import (
    PASSES,
    PASSES_OF_A_SEARCH,
    SHAPE_COST,
    Batch,
    Chunk,
    block_numbers,
    make_chunk,
    moved,
    plan_batches,
    uniform_residual,
)
from vbagg.elbo import Spec
from vbagg.held import Division, Held, Here
from vbagg.inference import Problem, Traits
from vbagg.inference.problem import LONG
from vbagg.inference.sums import Sums
from vbagg.likelihoods.base import Facts
from vbagg.models.frame import Frame
from vbagg.models.setup import TrainingData
from vbagg.portions import Source
from vbagg.representatives import (
    NUMBERS,
    Numbers,
    Representation,
    first_representatives,
    joined,
    representative_bags,
)


@dataclass(frozen=True)
class Layout:
    """Precision, tiles, residual modes and representatives of a fit."""

    n_columns: int
    """Features of an individual."""
    residual: str
    tiled: bool
    single: bool
    """Whether features are computed in single precision."""
    representatives: int | str | None
    """Individuals that stand for a larger bag in a search; None for all."""
    rough: bool
    """Whether they do so in all of the fit."""
    memory: float
    random_state: int

    @classmethod
    def of(
        cls,
        traits: Traits,
        approximation: str,
        residual: str,
        sizes: np.ndarray,
        n_columns: int,
        memory: float,
        random_state: int,
    ) -> Layout:
        """For bags of these sizes."""
        mode = uniform_residual(residual, sizes) if traits.any_batch else residual
        few = None if mode == "diagonal" else traits.representatives
        single = single_precision(traits.precision, approximation, most(few), sizes, n_columns)
        return cls(n_columns, mode, not traits.any_batch, single, few, traits.rough, memory, random_state)

    def problem(self, kinds: Sequence[tuple[Spec, TrainingData]]) -> Problem:
        """The problem of a fit to one or more kinds of outputs.

        It has representatives of the bags where a search would gain by them.
        """
        build = _Builds(tuple(_Build(self, spec, data) for spec, data in kinds))
        sizes, number = build.sizes, most(self.representatives)
        if number is None or not self._worth_representing(sizes, number):
            return build.all(PASSES_OF_A_SEARCH)
        if self.rough:
            return build.few(None if self.representatives == "auto" else np.full(len(sizes), number))
        problem = build.all(PASSES)
        if self.representatives == "auto":
            first = build.few(None)
            found = first.division.join(first.sums.each(Sums.sizes))
            problem.represent(Numbers.needed(sizes, found), build.few, first)
        else:
            numbers = Numbers(sizes, np.full(len(sizes), number), fixed=True)
            problem.represent(numbers, build.few, build.few(numbers.number))
        return problem

    def plan(self, sizes: np.ndarray, residual: str, passes: int, block: np.ndarray) -> list[Batch]:
        """Chunks of bags of these sizes."""
        return plan_batches(sizes, residual, n_columns=self.n_columns, tiled=self.tiled, passes=passes, block=block)

    def _worth_representing(self, sizes: np.ndarray, number: int) -> bool:
        """Whether individuals that stand for the bags would save much while parameters are searched for."""
        if (sizes > number).any() or self.representatives != "auto":
            return bool((sizes > number).any())
        possible = np.maximum(sizes - NUMBERS[0], 0).sum()
        return bool(possible * self.n_columns**2 * PASSES_OF_A_SEARCH > SHAPE_COST)


@dataclass(frozen=True)
class _Builds:
    """Problems of one fit, to all kinds of outputs."""

    kinds: tuple[_Build, ...]

    @property
    def sizes(self) -> np.ndarray:
        """Individuals of each bag, one kind after the other."""
        return np.concatenate([own.data.outline.sizes for own in self.kinds])

    def all(self, passes: int) -> Problem:
        """With all individuals."""
        return Problem.joined([own.all(passes) for own in self.kinds])

    def few(self, number: np.ndarray | None) -> Problem:
        """With so many (b) representatives of each bag, or as many as it seems to need."""
        ends = np.cumsum([len(own.data.outline) for own in self.kinds])[:-1]
        numbers = [None] * len(self.kinds) if number is None else np.split(number, ends)
        return Problem.joined([own.few(few) for own, few in zip(self.kinds, numbers, strict=True)])


@dataclass(frozen=True)
class _Build:
    """Problems with one kind of outputs. Their chunks are those of one process, however the data are divided."""

    layout: Layout
    spec: Spec
    data: TrainingData

    def all(self, passes: int) -> Problem:
        """With all individuals."""
        portions, layout = self.data.portions, self.layout
        batches = layout.plan(portions.outline.sizes, layout.residual, passes, portions.block)
        own = self._parts(portions.division, batches)
        sums = portions.held.made(_all, layout, self.spec, self.data.frame, own=own)
        return self._problem(sums, portions.division)

    def few(self, number: np.ndarray | None) -> Problem:
        """With so many (b) representatives of each bag, or as many as it seems to need."""
        portions, layout = self.data.portions, self.layout
        numbers = [None] * len(portions.held) if number is None else portions.division.split(number)
        found = joined(portions.held.each(_representatives, self.data.frame, own=numbers))
        sizes = found.bags.sizes
        block = block_numbers(sizes)
        residual = "exact" if layout.residual == "exact" else "auto"
        batches = layout.plan(sizes, residual, PASSES_OF_A_SEARCH, block)
        # passes over one block are too short to be worth the way to a worker
        spans = portions.held.spans(block) if block[-1] else [(0, len(block))]
        division = Division(tuple(np.arange(*span) for span in spans))
        parts = [found.between(*span) for span in spans]
        held = portions.held.hold(parts) if block[-1] else Here(parts)
        return self._problem(held.made(_few, layout, self.spec, own=self._parts(division, batches)), division)

    def _problem(self, sums: Held[Sums], division: Division) -> Problem:
        size = float(np.sum(np.abs(self.data.y)))
        return Problem(self.spec, sums, division, self.layout.n_columns, size, self.layout.single)

    def _parts(self, division: Division, batches: list[Batch]) -> list[_Part]:
        """Outputs and chunks of each run of bags."""
        parts = []
        for own in division.positions:
            facts = {name: values[own] for name, values in self.data.facts.items()}
            inside = [batch for batch in batches if own[0] <= batch.positions[0] <= own[-1]]
            moved = [replace(batch, positions=batch.positions - own[0]) for batch in inside]
            parts.append(_Part(self.data.y[own], facts, moved))
        return parts


@dataclass(frozen=True)
class _Part:
    """Outputs of some bags, what the likelihood knows of them, and their chunks."""

    y: np.ndarray
    facts: Facts
    batches: list[Batch]

    def sums(self, layout: Layout, spec: Spec, blocks: Iterable[tuple[Any, ...]]) -> Sums:
        """Over these bags: blocks of bags in standard units, the known part of `f` of their rows, and any groups."""
        precision = np.float32 if layout.single else np.float64
        chunks: dict[int, Chunk] = {}
        first = rows = 0
        for bags, known, *groups in blocks:
            last = first + len(bags)
            y, facts = self.y[first:last], {name: values[first:last] for name, values in self.facts.items()}
            for number, batch in enumerate(self.batches):
                if first <= batch.positions[0] < last:
                    own = replace(batch, positions=batch.positions - first)
                    chunk = make_chunk(bags, own, y, facts, known, layout.random_state, precision, *groups)
                    chunks[number] = moved(chunk, first, rows)
            first, rows = last, rows + bags.n_individuals
        return Sums(spec, [chunks[number] for number in range(len(self.batches))], layout.n_columns, layout.memory)


def _all(source: Source, layout: Layout, spec: Spec, frame: Frame, part: _Part) -> Sums:
    """Sums over all individuals of a portion."""
    return part.sums(layout, spec, (frame.standardised(*block) for block in source.blocks()))


def _representatives(source: Source, frame: Frame, number: np.ndarray | None) -> Representation:
    """So many representatives of each bag of a portion, or as many as it seems to need."""
    found: list[Representation] = []
    first = 0
    for block in source.blocks():
        bags, known = frame.standardised(*block)
        own = None if number is None else number[first : first + len(bags)]
        found.append(first_representatives(bags, known) if own is None else representative_bags(bags, known, own))
        first += len(bags)
    return joined(found)


def _few(found: Representation, layout: Layout, spec: Spec, part: _Part) -> Sums:
    """Sums over representatives."""
    return part.sums(layout, spec, [(found.bags, found.known, found.groups)])


def most(representatives: Any) -> int | None:
    """Representatives that a bag has at most when a search begins; None for all individuals."""
    return NUMBERS[1] if representatives == "auto" else representatives


def single_precision(
    precision: str, approximation: str, representatives: int | None, sizes: np.ndarray, n_columns: int
) -> bool:
    """Whether features of individuals are computed in single precision: where the work ahead is long.

    Draws need the residual's factor, and a residual computed in single precision has none.
    """
    if precision == "auto" and approximation != "montecarlo":
        searched = np.minimum(sizes, representatives or np.inf)
        products = n_columns**2 * (PASSES * sizes.sum() + PASSES_OF_A_SEARCH * searched.sum())
        precision = "single" if products > LONG else "double"
    if precision == "single" and approximation == "montecarlo":
        raise ValueError('approximation "montecarlo" needs double precision; leave `precision` of Newton at "auto".')
    return precision == "single"
