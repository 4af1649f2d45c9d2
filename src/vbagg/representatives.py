"""Representative individuals: each bag by a few weighted ones, for the search over kernel parameters.

The individuals of a bag are split, always where the weighted spread is largest, until the wanted number of groups is
reached. A group is replaced by its weighted mean with its total weight, so totals are exact for functions that are
linear within groups. Many bags are split at the same time, one group of each in a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbagg.bags import Bags
from vbagg.chunks import Groups
from vbagg.ordering import lexicographic_order
from vbagg.threads import in_threads

NUMBERS = 8, 32, 128
"""Representatives of a bag: at first the first or, where individuals are far from them, the second of these."""
SPREAD = 0.05
"""Mean squared distance, per column in standard units, that individuals may have from the fewest representatives."""
TOLERABLE = 0.01
"""Nats for each bag by which representatives may change the ELBO."""
HELPFUL = 0.7
"""Share of the sizes of the errors that may be left after a step to more representatives."""
POWER_STEPS = 6
TOGETHER = 16_384
"""Rows of the bags that are split at the same time."""
ROUNDING = 1e-12
"""Spread of a part, relative to that of its group, that counts as none."""


@dataclass
class Numbers:
    """How many representatives bags have.

    Attributes
    ----------
    sizes
        (b) individuals.
    number
        (b) representatives that stand for them, or all of them if there are less.
    fixed
        Whether the number was given, and stays.
    """

    sizes: np.ndarray
    number: np.ndarray
    fixed: bool = False

    @classmethod
    def needed(cls, sizes: np.ndarray, found: np.ndarray) -> Numbers:
        """Of bags of which the first choice of representatives found so many (b)."""
        fewest, most, _ = NUMBERS
        return cls(sizes, np.where(found > fewest, most, fewest))

    def refine(self, error: np.ndarray, gap: float, last_error: float = np.inf) -> bool:
        """Ask for more where `error`, the nats by which the log density of each bag is off, is not tolerable.

        False where there is nothing to gain: the `gap` of the whole objective is tolerable, or the last step to more
        representatives did not help, the `last_error` being that of all bags before it.
        """
        coarse = ~(np.abs(error) <= TOLERABLE) & (self.number < np.minimum(self.sizes, NUMBERS[-1]))
        well = abs(gap) <= TOLERABLE * len(error)
        if self.fixed or well or total_error(error) > HELPFUL * last_error or not coarse.any():
            return False
        self.number[coarse] = np.array(NUMBERS)[np.searchsorted(NUMBERS, self.number[coarse], side="right")]
        return True


def total_error(error: np.ndarray) -> float:
    """Sum of the sizes of the errors of bags; infinite if one is not a number."""
    return float(np.nan_to_num(np.abs(error), nan=np.inf, posinf=np.inf).sum())


@dataclass(frozen=True)
class Representation:
    """Bags whose rows stand for groups of individuals."""

    bags: Bags
    known: np.ndarray
    """Part of `f` of each row that is not learnt."""
    groups: Groups

    def between(self, first: int, last: int) -> Representation:
        """Bags from one position to before another."""
        rows = slice(self.bags.starts[first], self.bags.starts[last])
        return Representation(self.bags[first:last], self.known[rows], self.groups.at(rows))


def joined(parts: Sequence[Representation]) -> Representation:
    """Bags of several representations, one after the other."""
    if len(parts) == 1:
        return parts[0]
    X, weight, known, share, deviation = (
        np.concatenate(arrays)
        for arrays in zip(
            *((p.bags.X, p.bags.weight, p.known, p.groups.share, p.groups.deviation) for p in parts), strict=True
        )
    )
    sizes = np.concatenate([part.bags.sizes for part in parts])
    return Representation(Bags(X, np.repeat(np.arange(len(sizes)), sizes), weight), known, Groups(share, deviation))


def first_representatives(bags: Bags, known: np.ndarray) -> Representation:
    """As many as the variation within each bag needs, of the two smallest numbers; `known` counts as a column."""
    fewest, most = np.full(len(bags), NUMBERS[0]), np.full(len(bags), NUMBERS[1])
    return representative_bags(bags, known, most, fewest, SPREAD * bags.n_features)


def representative_bags(
    bags: Bags, known: np.ndarray, number: np.ndarray, fewest: np.ndarray | None = None, near: float = 0.0
) -> Representation:
    """Bags of `number` (b) rows each, or all individuals if there are less.

    A bag has only the `fewest` (b) where their mean squared distance from the individuals is at most `near`.
    """
    fewest = number if fewest is None else fewest

    def some(span: tuple[int, int]) -> tuple[np.ndarray, ...]:
        return _represent(bags, known, number, fewest, near, *span)

    # few bags at a time, whose rows stay near the processor from one split to the next
    parts = in_threads(some, _spans(bags.starts))
    rows, weight, share, deviation, code = (np.concatenate(part) for part in zip(*parts, strict=True))
    made = Bags(rows[:, :-1], code, weight)
    return Representation(made, rows[:, -1], Groups(share, deviation[:, :-1]))


def _spans(starts: np.ndarray) -> list[tuple[int, int]]:
    """First bags and those after the last of runs of bags with `TOGETHER` rows or little more."""
    number = len(starts) - 1
    first = np.unique(np.searchsorted(starts[:-1], np.arange(0, starts[-1], TOGETHER)))
    first = first[first < number]
    return list(zip(first, np.append(first[1:], number), strict=True))


def _represent(
    bags: Bags, known: np.ndarray, number: np.ndarray, fewest: np.ndarray, near: float, first: int, last: int
) -> tuple[np.ndarray, ...]:
    """Rows (the known part behind them), weights, shares, deviations and bags that stand for some bags."""
    inside = slice(bags.starts[first], bags.starts[last])
    columns = np.column_stack([bags.X[inside], known[inside]])
    own_weight, own_bag = bags.weight[inside], bags.bag[inside]
    large = (bags.sizes > fewest)[own_bag]
    means, totals, bag, groups = group_means(columns[large], own_weight[large], own_bag[large], number, fewest, near)
    rows = np.concatenate([columns[~large], means])
    weight = np.concatenate([own_weight[~large], totals])
    share = np.concatenate([np.ones((~large).sum()), groups.share])
    deviation = np.concatenate([np.zeros_like(columns[~large]), groups.deviation])
    code = np.concatenate([own_bag[~large], bag])
    order = np.argsort(code, kind="stable")
    return rows[order], weight[order], share[order], deviation[order], code[order]


def group_means(
    rows: np.ndarray, weight: np.ndarray, bag: np.ndarray, number: np.ndarray, fewest: np.ndarray, near: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Groups]:
    """Weighted means (k, d), total weights (k), bags (k) and spread of groups: at most `number[a]` in bag `a`.

    The order of the rows makes no difference.
    """
    order = lexicographic_order(bag, *rows.T, weight)
    rows, weight = rows[order], weight[order]
    labels, bag = np.unique(bag[order], return_inverse=True)
    most = int(number.max(initial=1))
    group = bag * most + _slots(rows, weight, bag, number[labels], fewest[labels], near)
    order = np.argsort(group, kind="stable")
    segments = _Segments(group[order])
    weight, rows = weight[order], rows[order]
    totals = segments.sum(weight)
    means = segments.sum(weight[:, None] * rows) / totals[:, None]
    squares = segments.sum(weight[:, None] * (rows - means[segments.of_row]) ** 2) / totals[:, None]
    groups = Groups(segments.sum(weight**2) / totals**2, np.sqrt(squares))
    return means, totals, labels[segments.keys // most], groups


class _Segments:
    """Runs of equal keys in a sorted array, and sums over them."""

    def __init__(self, key: np.ndarray) -> None:
        first = np.ones(len(key), bool)
        first[1:] = key[1:] != key[:-1]
        self.starts = np.flatnonzero(first)
        self.keys = key[self.starts]
        self.of_row = np.cumsum(first) - 1

    def sum(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts) if len(self.starts) else values[:0]


def _slots(
    rows: np.ndarray, weight: np.ndarray, bag: np.ndarray, number: np.ndarray, fewest: np.ndarray, near: float
) -> np.ndarray:
    """(n) number of each row's group within its bag, the rows sorted by bag."""
    slot = np.zeros(len(rows), int)
    used = np.ones(len(number), int)
    mass = _Segments(bag).sum(weight)
    # of each group; infinite before its first split
    spread = np.zeros((len(number), number.max(initial=1)))
    spread[:, 0] = np.inf
    while True:
        widest = np.argmax(spread, axis=1)
        open_ = (used < number) & (spread.max(axis=1, initial=0.0) > 0)
        open_ &= (used != fewest) | (spread.sum(axis=1) > near * mass)
        if not open_.any():
            return slot
        members = np.flatnonzero(open_[bag] & (slot == widest[bag]))
        segments = _Segments(bag[members])
        above, parts = _split(rows[members], weight[members], segments)
        owner, old = segments.keys, widest[segments.keys]
        split = (parts[0] >= 0) & (parts[1] >= 0)
        spread[owner, old] = np.where(split, parts[0], 0.0)
        spread[owner[split], used[owner[split]]] = parts[1, split]
        moved = above & split[segments.of_row]
        slot[members[moved]] = used[bag[members[moved]]]
        used[owner[split]] += 1


def _split(rows: np.ndarray, weight: np.ndarray, segments: _Segments) -> tuple[np.ndarray, np.ndarray]:
    """Each segment on either side of its mean along its direction of largest spread, found by power iteration.

    Returns (n) whether a row is above, and (2, segments) the weighted sums of squares below and above: -1 for an
    empty part, 0 for a single row and within rounding.
    """
    of_row, w = segments.of_row, weight[:, None]
    centred = rows - (segments.sum(w * rows) / segments.sum(w))[of_row]
    squares = segments.sum(w * centred**2)
    along = centred[np.arange(len(rows)), np.argmax(squares, axis=1)[of_row]]
    for _ in range(POWER_STEPS):
        direction = segments.sum((weight * along)[:, None] * centred)
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        direction /= np.where(length > 0, length, 1.0)
        along = np.einsum("nd,nd->n", centred, direction[of_row])
    above = along > 0
    total = squares.sum(axis=1)
    parts = []
    for inside in (~above, above):
        w_in, count = weight * inside, segments.sum(inside.astype(int))
        mass = segments.sum(w_in)
        mean = segments.sum(w_in[:, None] * centred) / np.where(mass > 0, mass, 1.0)[:, None]
        own = segments.sum(w_in * np.sum((centred - mean[of_row]) ** 2, axis=1))
        own = np.where((count > 1) & (own > ROUNDING * total), own, 0.0)
        parts.append(np.where(count > 0, own, -1.0))
    return above, np.stack(parts)
