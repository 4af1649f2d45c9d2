"""Chunks: bags of similar size as dense padded arrays, so that a fit is a sum over a few compiled shapes.

Sizes are rounded up to a ladder and merged where padding costs less than another compilation; the number of bags
in a chunk is rounded likewise. Folds of one data set therefore share their compiled functions. Padding has weight
zero; a padded bag has `valid = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from vbagg.bags import Bags

Array = Any  # NumPy before a compiled function, JAX inside

CACHED = 4e6
"""Numbers in the largest array of a chunk: few enough to stay near the processor and clear of page faults."""

SHAPE_COST = 40_000
"""Work, in individuals, that one more compiled shape must save to be worth its compilation."""

PAIRS_PER_INDIVIDUAL = 75
"""Pairs of individuals that cost as much as one individual."""

EXACT_LIMIT = 128
"""Largest bag whose within-bag covariance `residual="auto"` takes from all pairs."""

COLUMNS = 64
"""Feature columns that an individual is counted with when chunks are cut to size."""

SUBSET_SIZE = 128
"""Individuals drawn from a larger bag to estimate the off-diagonal sums."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chunk:
    """Bags `(b)` of at most `n` individuals each, with what the objective needs of them."""

    X: Array
    weight: Array
    known: Array
    """Part of `f` that is not learnt: the centre of the mean's prior plus the user's offset."""
    y: Array
    aux: Array
    """Second number of a bag: trials, or the variance factor of the Normal."""
    valid: Array
    position: Array
    """Position of each bag in the data, -1 for padding."""
    drawn: Array | None
    """(b, j) positions drawn with probability proportional to weight, for the subset residual."""
    residual: str = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Padded bags and individuals."""
        b, n = self.weight.shape
        return b, n


@dataclass(frozen=True)
class Batch:
    """Positions of the bags that share one padded shape."""

    positions: np.ndarray
    n_bags: int
    size: int
    residual: str


def round_up(value: int, bits: int = 3) -> int:
    """Smallest number >= value with at most `bits` significant bits after the leading one."""
    step = 1 << max(int(value).bit_length() - 1 - bits, 0)
    return -(-int(value) // step) * step


def plan_batches(sizes: np.ndarray, residual: str, max_elements: float) -> list[Batch]:
    """Group bags by padded size; `max_elements` bounds the largest array of one chunk."""
    if residual == "auto":
        modes = np.where(sizes <= EXACT_LIMIT, "exact", "subset")
    else:
        modes = np.full(len(sizes), residual)
    batches = []
    for mode in ("exact", "subset", "diagonal"):
        members = np.flatnonzero(modes == mode)
        for top, group in _merge_sizes(sizes, members, pairs=mode == "exact"):
            pairs = {"exact": top**2, "subset": SUBSET_SIZE**2, "diagonal": 0}[mode]
            per_chunk = max(1, int(max_elements // (top * COLUMNS + pairs)))
            pieces = np.array_split(group, -(-len(group) // per_chunk))
            n_bags = min(round_up(max(len(piece) for piece in pieces)), max(per_chunk, len(pieces[0])))
            batches += [Batch(piece, n_bags, top, mode) for piece in pieces]
    return batches


def _merge_sizes(sizes: np.ndarray, members: np.ndarray, pairs: bool) -> list[tuple[int, np.ndarray]]:
    """Partition bags into size classes with the least work plus `SHAPE_COST` per class (dynamic programme)."""
    if len(members) == 0:
        return []
    rungs = np.array([round_up(s) for s in sizes[members]])
    ladder, counts = np.unique(rungs, return_counts=True)
    work = ladder + (ladder**2 / PAIRS_PER_INDIVIDUAL if pairs else 0)
    total = np.concatenate([[0], np.cumsum(counts)])
    best, cut = [0.0], [0]
    for stop in range(1, len(ladder) + 1):
        costs = [best[i] + SHAPE_COST + work[stop - 1] * (total[stop] - total[i]) for i in range(stop)]
        cut.append(int(np.argmin(costs)))
        best.append(min(costs))
    classes, stop = [], len(ladder)
    while stop > 0:
        start = cut[stop]
        inside = (rungs >= ladder[start]) & (rungs <= ladder[stop - 1])
        classes.append((int(ladder[stop - 1]), members[inside]))
        stop = start
    return classes[::-1]


def uniform_residual(residual: str, sizes: np.ndarray) -> str:
    """One mode for all bags where bags must share an array: `auto` is exact only if every bag is small enough."""
    if residual != "auto":
        return residual
    return "exact" if sizes.max() <= EXACT_LIMIT else "subset"


def make_chunk(bags: Bags, batch: Batch, y: np.ndarray, aux: np.ndarray, known: np.ndarray, random_state: int) -> Chunk:
    """Dense arrays of one batch; `known` is aligned with the rows of `bags`."""
    shape = (batch.n_bags, batch.size)
    X = np.zeros((*shape, bags.n_features))
    weight, known_part = np.zeros(shape), np.zeros(shape)
    ys, auxs, valid = np.ones(batch.n_bags), np.ones(batch.n_bags), np.zeros(batch.n_bags)
    at = np.full(batch.n_bags, -1, dtype=np.int32)
    at[: len(batch.positions)] = batch.positions
    weight[len(batch.positions) :, 0] = 1.0
    for slot, position in enumerate(batch.positions):
        rows = slice(bags.starts[position], bags.starts[position + 1])
        size = rows.stop - rows.start
        X[slot, :size], weight[slot, :size] = bags.X[rows], bags.weight[rows]
        X[slot, size:] = bags.X[rows.start]
        known_part[slot, :size] = known[rows]
        ys[slot], auxs[slot], valid[slot] = y[position], aux[position], 1.0
    drawn = _draw(X, weight, random_state) if batch.residual == "subset" else None
    return Chunk(X, weight, known_part, ys, auxs, valid, at, drawn, batch.residual)


def _draw(X: np.ndarray, weight: np.ndarray, random_state: int) -> np.ndarray:
    """Positions drawn with replacement, probability proportional to weight, whatever the order of the rows."""
    levels = np.random.default_rng(random_state).random(SUBSET_SIZE)
    drawn = np.empty((len(weight), SUBSET_SIZE), dtype=np.int32)
    for slot in range(len(weight)):
        order = np.lexsort((weight[slot], *X[slot].T))
        cumulative = np.cumsum(weight[slot][order])
        drawn[slot] = order[np.searchsorted(cumulative, levels * cumulative[-1], side="right").clip(max=len(order) - 1)]
    return drawn


def make_chunks(
    bags: Bags,
    y: np.ndarray,
    aux: np.ndarray,
    known: np.ndarray,
    residual: str = "auto",
    max_elements: float = CACHED,
    random_state: int = 0,
) -> list[Chunk]:
    """All bags as padded chunks."""
    batches = plan_batches(bags.sizes, residual, max_elements)
    return [make_chunk(bags, batch, y, aux, known, random_state) for batch in batches]
