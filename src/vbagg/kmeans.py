"""k-means of weighted rows: well-spread seeds, and the centres that they lead to.

scikit-learn has both, and takes a second of processor time to be imported; the results are the same.
"""

from __future__ import annotations

import math

import numpy as np

MAX_ITERATIONS = 300
SMALL_MOVE = 1e-4
"""Squared move of all centres together, in mean variances of the columns, below which they have settled."""
TOGETHER = 1024
"""Rows whose distances from all centres are worked out at the same time."""


def kmeans_seeds(rows: np.ndarray, weight: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Positions of seeds by k-means++ (Arthur and Vassilvitskii, 2007), each the best of several draws."""
    random = np.random.RandomState(seed)
    squares = np.einsum("nd,nd->n", rows, rows)
    tries = 2 + int(math.log(number))

    def squared_distances(chosen: np.ndarray) -> np.ndarray:
        found = squares[chosen, None] - 2.0 * (rows[chosen] @ rows.T) + squares
        found[np.arange(len(chosen)), chosen] = 0.0
        return np.maximum(found, 0.0)

    seeds = [int(random.choice(len(rows), p=weight / weight.sum()))]
    nearest = squared_distances(np.array(seeds))[0]
    for _ in range(1, number):
        levels = random.uniform(size=tries) * (nearest @ weight)
        drawn = np.minimum(np.searchsorted(np.cumsum(weight * nearest), levels), len(rows) - 1)
        distances = np.minimum(nearest, squared_distances(drawn))
        best = int(np.argmin(distances @ weight))
        seeds.append(int(drawn[best]))
        nearest = distances[best]
    return np.array(seeds)


def kmeans_centres(rows: np.ndarray, weight: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Weighted means of the rows nearest to each of them, found from seeds by Lloyd's iterations."""
    middle = rows.mean(axis=0)
    rows, centres = rows - middle, seeds - middle
    settled = SMALL_MOVE * float(np.var(rows, axis=0).mean())
    label = np.full(len(rows), -1)
    for _ in range(MAX_ITERATIONS):
        before, label = label, _nearest(rows, centres)
        means = _means(rows, weight, centres, label)
        moved, centres = float(np.sum((means - centres) ** 2)), means
        if moved <= settled or np.array_equal(label, before):
            break
    return centres + middle


def _nearest(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Number of the centre nearest to each row."""
    squares = np.einsum("kd,kd->k", centres, centres)
    starts = range(0, len(rows), TOGETHER)
    return np.concatenate([np.argmin(squares - 2.0 * (rows[i : i + TOGETHER] @ centres.T), axis=1) for i in starts])


def _means(rows: np.ndarray, weight: np.ndarray, centres: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Weighted means of the rows of each label; a centre without rows takes the row that is farthest from its own."""
    number = len(centres)
    without = np.flatnonzero(np.bincount(label, minlength=number) == 0)
    if len(without):
        label = label.copy()
        distance = np.sum((rows - centres[label]) ** 2, axis=1)
        label[np.argsort(-distance, kind="stable")[: len(without)]] = without
    mass = np.bincount(label, weight, number)
    sums = np.stack([np.bincount(label, weight * column, number) for column in rows.T], axis=1)
    return np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1.0)[:, None], centres)
