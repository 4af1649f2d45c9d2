"""Chunks: bags as dense padded arrays, so that a fit is a sum over a few compiled shapes.

Small bags fill a row of arrays each. Their sizes are rounded up to a ladder and merged where padding costs less than
another compilation. Larger bags are cut into tiles of `TILE` individuals, so that bags of all sizes share one shape.
The numbers of bags and tiles in a chunk are rounded up too, coarsely where little is computed with them: folds of one
data set share their compiled functions.
Padding has weight zero; a padded bag has `valid = 0`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from vbagg.bags import Bags

Array = Any  # NumPy before a compiled function, JAX inside

CACHED = 8e6
"""Numbers in the largest array of a chunk: few enough to stay near the processor and clear of page faults."""

ONCE = 1.5e6
"""The same where a chunk is gone through once: so few that all of its arrays fit into memory that the C library keeps
for the next chunk. Asking the system for more, page by page, takes a third of the time otherwise."""
LEAST, TRIES = 0.6, 9
"""Least share of `ONCE` that is tried as the size of chunks, and the number of sizes."""

TILE = 64
"""Individuals in a tile of a larger bag."""

SHAPE_COST = 7e10
"""Work, in products of a feature with a weight, that one more compiled shape must save to be worth its compilation."""

BLOCK = 65_536
"""Rows of a block of bags. A chunk lies in one block, and workers hold whole blocks, so that chunks, and sums over each
of them, are the same however many workers there are."""

PASSES, PASSES_OF_A_SEARCH = 5, 100
"""Passes over the individuals that the last solve of `q` takes, and a search for parameters."""

FINE, COARSE, PADDING = (3, 4), (1, 1), 0.2
"""Bits to which bags and tiles are rounded up, and the share of padding that coarse shapes have more."""

PAIRS_PER_INDIVIDUAL = 75
"""Pairs of individuals that cost as much as one individual."""

EXACT_LIMIT = 128
"""Largest bag whose within-bag covariance `residual="auto"` takes from all pairs."""

MOST_WITHOUT_WEIGHT = 4
"""Times as many rows as that a bag may have, those of zero weight counted, for all pairs to be taken."""

SUBSET_SIZE = 128
"""Individuals drawn from a larger bag to estimate the off-diagonal sums."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tiles:
    """Which tiles of a chunk make up which bag; those of a bag follow each other."""

    owner: Array
    """(t) bag of each tile."""
    first: Array
    """(b) first tile of each bag."""

    @classmethod
    def of(cls, chunk: Any) -> Tiles:
        """Tiles of a chunk, staged or not; where it has none, each bag is one."""
        return chunk.tiles or cls(*2 * (np.arange(len(chunk.weight)),))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Groups:
    """Rows that stand for groups of individuals, along the rows of a table or of the tiles of a chunk."""

    share: Array
    """Sum of squared weights over the squared sum: one over the effective number of individuals."""
    deviation: Array
    """(..., d) root mean squared distance of the individuals from their mean, by column."""

    def at(self, rows: Any) -> Groups:
        """Of some rows."""
        return Groups(self.share[rows], self.deviation[rows])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chunk:
    """Bags `(b)` in tiles `(t)` of `n` individuals each, with what the objective needs of them."""

    X: Array
    """(t, n, d)"""
    weight: Array
    """(t, n)"""
    known: Array
    """Part of `f` that is not learnt: the centre of the mean's prior plus the user's offset."""
    y: Array
    facts: dict[str, Array]
    """What the likelihood knows of each bag besides its output, by name."""
    valid: Array
    residual_scale: Array
    """(b) what multiplies the residual's variance of each total: that of all individuals over that of these rows."""
    position: Array
    """Position of each bag in the data, -1 for padding."""
    rows: Array
    """(t, n) position of each individual in the data, -1 for padding."""
    drawn: Array | None
    """(b, j) positions in the bag, drawn with probability proportional to weight, for the subset residual."""
    tiles: Tiles | None
    """None where each bag is one tile."""
    groups: Groups | None
    """Of how many each row is the mean; None where rows are single individuals."""
    residual: str = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Padded bags, and individuals that a bag has on average."""
        t, n = self.weight.shape
        return len(self.y), -(-t * n // len(self.y))


@dataclass(frozen=True)
class Batch:
    """Positions of the bags of a chunk, and the chunk's padded shape."""

    positions: np.ndarray
    n_bags: int
    size: int
    """Individuals of a bag, or of a tile."""
    residual: str
    n_tiles: int | None = None
    """None where each bag is one tile."""


def round_up(value: int, bits: int = 3) -> int:
    """Smallest number >= value with at most `bits` significant bits after the leading one."""
    step = 1 << max(int(value).bit_length() - 1 - bits, 0)
    return -(-int(value) // step) * step


def residual_modes(residual: str, sizes: np.ndarray, weighty: np.ndarray) -> np.ndarray:
    """Residual mode of bags with so many rows, of which so many are `weighty`: others change no total, nor its mode."""
    if residual != "auto":
        return np.full(len(sizes), residual)
    few = (weighty <= EXACT_LIMIT) & (sizes <= MOST_WITHOUT_WEIGHT * EXACT_LIMIT)
    return np.where(few, "exact", "subset")


def plan_batches(
    sizes: np.ndarray,
    residual: str,
    max_elements: float = CACHED,
    n_columns: int = 64,
    tiled: bool = True,
    passes: int = PASSES,
    weighty: np.ndarray | None = None,
    block: np.ndarray | None = None,
    tries: int = 1,
) -> list[Batch]:
    """Group bags by padded size or into chunks of tiles.

    `max_elements` bounds the largest array of one chunk, where an individual has `n_columns` features. `weighty` are
    the numbers of individuals of positive weight, by default all. Bags of different blocks, whose numbers `block` (b)
    has, share no chunk; all blocks share their shapes. Chunks of tiles are tried in `tries` sizes, from the
    share `LEAST` of the largest to twice the largest bag, of which that with least padding is taken.
    """
    block = np.zeros(len(sizes), np.intp) if block is None else block
    shape_cost = SHAPE_COST / passes / n_columns**2
    # a search pays for padding too often; few passes over few individuals cost less than shapes of their own
    bits, tile_bits = COARSE if passes <= PASSES and PADDING * sizes.sum() < shape_cost else FINE
    modes = residual_modes(residual, sizes, sizes if weighty is None else weighty)
    batches = []
    for mode in ("exact", "subset", "diagonal"):
        cut = (modes == mode) & (sizes > TILE) & (mode != "exact") & tiled
        if cut.any():
            blocks = _by_block(np.flatnonzero(cut), block)
            # all chunks have the shape of that with the largest bag, which leaves little padding if they hold two of it
            largest = float(sizes.max()) * n_columns
            top = max(max_elements, largest, min(2 * largest, CACHED)) if tries > 1 else max_elements
            layouts = [
                _tile_batches(sizes, blocks, mode, most, n_columns, bits, tile_bits)
                for most in np.linspace(top, LEAST * max_elements, tries)
            ]
            batches += min(layouts, key=lambda layout: sum(batch.n_tiles or 0 for batch in layout))
        members = np.flatnonzero((modes == mode) & ~cut)
        for top, group in _merge_sizes(sizes, members, shape_cost, bits, pairs=mode == "exact"):
            pairs = {"exact": top**2, "subset": _pair_elements(n_columns), "diagonal": 0}[mode]
            per_chunk = max(1, int(max_elements // (top * n_columns + pairs)))
            blocks = _by_block(group, block)
            pieces = [piece for own in blocks for piece in np.array_split(own, -(-len(own) // per_chunk))]
            most = max(len(piece) for piece in pieces)
            n_bags = min(round_up(most, bits), max(per_chunk, most))
            batches += [Batch(piece, n_bags, top, mode) for piece in pieces]
    return batches


def block_numbers(sizes: np.ndarray) -> np.ndarray:
    """Number (b) of the block of each bag: blocks are runs of bags with about `BLOCK` rows."""
    return np.unique((np.cumsum(sizes) - sizes) // BLOCK, return_inverse=True)[1]


def block_edges(block: np.ndarray) -> list[int]:
    """Position of the first bag of each block, and the one after the last, from their numbers (b)."""
    return [*np.flatnonzero(np.diff(block, prepend=-1)).tolist(), len(block)]


def moved(chunk: Chunk, bags: int, rows: int) -> Chunk:
    """The chunk as one of data in which so many bags and rows come before its own."""
    position = np.where(chunk.position < 0, -1, chunk.position + bags).astype(np.int32)
    return replace(chunk, position=position, rows=np.where(chunk.rows < 0, -1, chunk.rows + rows).astype(np.int32))


def _by_block(members: np.ndarray, block: np.ndarray) -> list[np.ndarray]:
    """Positions of bags, those of each block together."""
    order = members[np.argsort(block[members], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(block[order])) + 1)


def _pair_elements(n_columns: int) -> int:
    """Numbers that the drawn individuals of a bag add to a chunk."""
    return SUBSET_SIZE * (SUBSET_SIZE + n_columns)


def _tile_batches(
    sizes: np.ndarray,
    blocks: list[np.ndarray],
    mode: str,
    max_elements: float,
    n_columns: int,
    bits: int,
    tile_bits: int,
) -> list[Batch]:
    """Chunks of one shape and, in each block, about equal work."""
    tiles = -(-sizes // TILE)
    work = tiles * TILE * n_columns + (_pair_elements(n_columns) if mode == "subset" else 0)
    pieces = [piece for members in blocks for piece in _even_pieces(members, work, max_elements)]
    n_bags = round_up(max(map(len, pieces)), bits)
    # a padded bag has a tile of its own
    n_tiles = round_up(max(int(tiles[piece].sum()) + n_bags - len(piece) for piece in pieces), tile_bits)
    return [Batch(piece, n_bags, TILE, mode, n_tiles) for piece in pieces]


def _even_pieces(members: np.ndarray, work: np.ndarray, most: float) -> list[np.ndarray]:
    """Bags in pieces of about `most` work: the largest bag first, each to the piece that has least."""
    pieces: list[list[int]] = [[] for _ in range(min(len(members), int(-(-work[members].sum() // most))))]
    least = [(0, number) for number in range(len(pieces))]
    for at in members[np.argsort(-work[members], kind="stable")]:
        load, number = least[0]
        heapq.heapreplace(least, (load + int(work[at]), number))
        pieces[number].append(int(at))
    return [np.sort(piece) for piece in pieces]


def _merge_sizes(
    sizes: np.ndarray, members: np.ndarray, shape_cost: float, bits: int, pairs: bool
) -> list[tuple[int, np.ndarray]]:
    """Partition bags into size classes with the least work, in individuals, padding and shapes counted."""
    if len(members) == 0:
        return []
    rungs = np.array([round_up(s, bits) for s in sizes[members]])
    ladder, counts = np.unique(rungs, return_counts=True)
    work = ladder + (ladder**2 / PAIRS_PER_INDIVIDUAL if pairs else 0)
    total = np.concatenate([[0], np.cumsum(counts)])
    best, cut = [0.0], [0]
    for stop in range(1, len(ladder) + 1):
        costs = [best[i] + shape_cost + work[stop - 1] * (total[stop] - total[i]) for i in range(stop)]
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


def make_chunk(
    bags: Bags,
    batch: Batch,
    y: np.ndarray,
    facts: dict[str, np.ndarray],
    known: np.ndarray,
    random_state: int,
    precision: Any = np.float64,
    groups: Groups | None = None,
) -> Chunk:
    """Dense arrays of one batch; `known` and `groups` are aligned with the rows of `bags`."""
    tiles = None if batch.n_tiles is None else _lay_tiles(bags.sizes[batch.positions], batch.n_bags, batch.n_tiles)
    first = np.arange(batch.n_bags) if tiles is None else tiles.first
    n_rows = (batch.n_tiles or batch.n_bags) * batch.size
    X = np.zeros((n_rows, bags.n_features), precision)
    weight, known_part = np.zeros(n_rows), np.zeros(n_rows)
    at = np.full(batch.n_bags, -1, dtype=np.int32)
    at[: len(batch.positions)] = batch.positions
    source = np.full(n_rows, -1, dtype=np.int32)
    weight[first[len(batch.positions) :] * batch.size] = 1.0
    drawn = np.zeros((batch.n_bags, SUBSET_SIZE), dtype=np.int32) if batch.residual == "subset" else None
    levels = np.random.default_rng(random_state).random(SUBSET_SIZE)
    for slot, position in enumerate(batch.positions):
        rows = slice(bags.starts[position], bags.starts[position + 1])
        size, begin = rows.stop - rows.start, first[slot] * batch.size
        end = begin + -(-size // batch.size) * batch.size
        X[begin : begin + size], weight[begin : begin + size] = bags.X[rows], bags.weight[rows]
        X[begin + size : end] = bags.X[rows.start]
        known_part[begin : begin + size] = known[rows]
        source[begin : begin + size] = np.arange(rows.start, rows.stop)
        if drawn is not None:
            drawn[slot] = _draw(bags.X[rows], bags.weight[rows], levels)
    shape = (-1, batch.size)
    return Chunk(
        X=X.reshape(*shape, bags.n_features),
        weight=weight.reshape(shape),
        known=known_part.reshape(shape),
        y=_padded(y, batch),
        facts={name: _padded(values, batch) for name, values in facts.items()},
        valid=(at >= 0).astype(float),
        residual_scale=np.ones(batch.n_bags),
        position=at,
        rows=source.reshape(shape),
        drawn=drawn,
        tiles=tiles,
        groups=None if groups is None else groups.at(source.reshape(shape)),
        residual=batch.residual,
    )


def _padded(values: np.ndarray, batch: Batch) -> np.ndarray:
    """Numbers of the bags of a batch, one for padding."""
    padded = np.ones(batch.n_bags)
    padded[: len(batch.positions)] = values[batch.positions]
    return padded


def _lay_tiles(sizes: np.ndarray, n_bags: int, n_tiles: int) -> Tiles:
    """Tiles of each bag one after the other; padded bags have one each, the last of all bags what is left."""
    counts = np.ones(n_bags, dtype=np.int32)
    counts[: len(sizes)] = -(-sizes // TILE)
    counts[-1] += n_tiles - counts.sum()
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
    return Tiles(np.repeat(np.arange(n_bags, dtype=np.int32), counts), first)


def _draw(X: np.ndarray, weight: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Positions drawn with replacement, probability proportional to weight, whatever the order of the rows."""
    order = np.lexsort((weight, *X.T))
    cumulative = np.cumsum(weight[order])
    return order[np.searchsorted(cumulative, levels * cumulative[-1], side="right").clip(max=len(order) - 1)]


def make_chunks(
    bags: Bags,
    y: np.ndarray,
    facts: dict[str, np.ndarray],
    known: np.ndarray,
    residual: str = "auto",
    max_elements: float = CACHED,
    random_state: int = 0,
    n_columns: int = 64,
    tiled: bool = True,
    precision: Any = np.float64,
    passes: int = PASSES,
    groups: Groups | None = None,
    tries: int = 1,
) -> list[Chunk]:
    """All bags as padded chunks for a number of `passes` over them; untiled, each bag fills one row of the arrays.

    Features of individuals are computed in the `precision` of X. With `groups`, rows stand for groups of individuals.
    """
    weighty = bags.sum_by_bag(bags.weight > 0)
    batches = plan_batches(bags.sizes, residual, max_elements, n_columns, tiled, passes, weighty, tries=tries)
    return [make_chunk(bags, batch, y, facts, known, random_state, precision, groups) for batch in batches]


def gather(parts: list[np.ndarray], chunks: list[Chunk]) -> np.ndarray:
    """Per-bag rows of all chunks in the order of the bags, padding dropped."""
    position = np.concatenate([np.asarray(chunk.position) for chunk in chunks])
    values = np.concatenate(parts)
    inside = position >= 0
    out = np.empty((inside.sum(), *values.shape[1:]))
    out[position[inside]] = values[inside]
    return out


def gather_rows(parts: list[np.ndarray], chunks: list[Chunk]) -> np.ndarray:
    """Numbers of individuals (t, n) of all chunks in the order of the rows, padding dropped."""
    rows = np.concatenate([np.ravel(chunk.rows) for chunk in chunks])
    values = np.concatenate([np.ravel(part) for part in parts])
    out = np.empty((rows >= 0).sum())
    out[rows[rows >= 0]] = values[rows >= 0]
    return out


def gather_draws(parts: list[np.ndarray], chunks: list[Chunk]) -> np.ndarray:
    """Draws (s, t, n) for individuals of all chunks as (s, rows), in their precision."""
    out = np.empty((len(parts[0]), sum((chunk.rows >= 0).sum() for chunk in chunks)), parts[0].dtype)
    for part, chunk in zip(parts, chunks, strict=True):
        rows, values = np.ravel(chunk.rows), part.reshape(len(part), -1)
        inside = rows >= 0
        if not inside.all():
            rows, values = rows[inside], values[:, inside]
        # rows of large bags follow each other, which costs a tenth
        out[:, slice(rows[0], rows[-1] + 1) if (np.diff(rows) == 1).all() else rows] = values
    return out
