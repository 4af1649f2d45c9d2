"""Representative individuals: each bag by a few weighted ones, for the search over kernel parameters.

The individuals of a bag are split, always where the weighted spread is largest, until the wanted number of groups is
reached. A group is replaced by its weighted mean with its total weight, so totals are exact for functions that are
linear within groups.
"""

from __future__ import annotations

import heapq

import numpy as np

from vbagg.bags import Bags

POWER_STEPS = 6


def representative_bags(bags: Bags, known: np.ndarray, number: int) -> tuple[Bags, np.ndarray]:
    """Bags of at most `number` individuals each, and the known part of `f` of these.

    Parameters
    ----------
    bags
        Individuals in standard units, all of positive weight.
    known
        (n) part of `f` that is not learnt; it counts as one more column when groups are formed.
    """
    columns = np.column_stack([bags.X, known])
    parts = []
    for position, size in enumerate(bags.sizes):
        rows = slice(bags.starts[position], bags.starts[position + 1])
        if size <= number:
            parts.append((columns[rows], bags.weight[rows]))
        else:
            parts.append(group_means(columns[rows], bags.weight[rows], number))
    code = np.repeat(np.arange(len(bags)), [len(weight) for _, weight in parts])
    means = np.concatenate([rows for rows, _ in parts])
    weight = np.concatenate([weight for _, weight in parts])
    return Bags(means[:, :-1], code, weight), means[:, -1]


def group_means(rows: np.ndarray, weight: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means (k, d) and total weights (k) of at most `number` groups, whatever the order of the rows."""
    order = np.lexsort((weight, *rows.T[::-1]))
    rows, weight = rows[order], weight[order]
    queue = [_entry(rows, weight, np.arange(len(rows)))]
    while len(queue) < number and queue[0][0] < 0:
        _, first, members = heapq.heappop(queue)
        parts = _split(rows, weight, members)
        if min(map(len, parts)) == 0:  # apart by less than rounding
            heapq.heappush(queue, (0.0, first, members))
            continue
        for part in parts:
            heapq.heappush(queue, _entry(rows, weight, part))
    groups = [members for _, _, members in sorted(queue, key=lambda entry: entry[1])]
    totals = np.array([weight[members].sum() for members in groups])
    means = np.stack([weight[members] @ rows[members] for members in groups]) / totals[:, None]
    return means, totals


def _entry(rows: np.ndarray, weight: np.ndarray, members: np.ndarray) -> tuple[float, int, np.ndarray]:
    """Priority (minus the weighted sum of squares), first member to break ties, and the members of a group."""
    if len(members) == 1:
        return 0.0, int(members[0]), members
    centred, w = _centred(rows, weight, members)
    return -float(w @ np.sum(centred**2, axis=1)), int(members[0]), members


def _centred(rows: np.ndarray, weight: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    X, w = rows[members], weight[members]
    return X - (w @ X) / w.sum(), w


def _split(rows: np.ndarray, weight: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two parts on either side of the mean along the direction of largest spread (power iteration)."""
    centred, w = _centred(rows, weight, members)
    direction = centred[np.argmax(np.sum(centred**2, axis=1))]
    for _ in range(POWER_STEPS):
        direction = direction / np.linalg.norm(direction)
        direction = (w * (centred @ direction)) @ centred
    above = centred @ direction > 0
    return members[above], members[~above]
