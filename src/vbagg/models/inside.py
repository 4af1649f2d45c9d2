"""Draws of how effects vary inside their bags, for many individuals at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vbagg.models.predicted import REACH, Plan
from vbagg.posterior import near_alike

APART = 0.25
"""Side of the squares whose individuals have the same draw, in distances over which effects stay alike: within one of
them correlations are above 0.7."""
MOST_NODES = 1 << 22
"""Numbers in the correlation matrices of bags that are factorised at once."""


class VariedInside:
    """Draws of variance one about the mean of their bag, alike in places near to each other, of all bags of a plan.

    They are those of `Conditioned.draw`, but for squares of individuals that have the same.
    """

    def __init__(self, plan: Plan) -> None:
        bag = plan.ready.bag
        if plan.places is None:
            self._node, node_bag, places = np.arange(len(bag)), bag, None
        else:
            squares = np.column_stack([bag, np.floor(plan.places / (APART * REACH))])
            _, first, self._node = np.unique(squares, axis=0, return_index=True, return_inverse=True)
            node_bag, places = bag[first], plan.places
        self._bag, self._share = node_bag, np.bincount(self._node, plan.share)
        self._n_bags = len(plan.ready)
        self._groups: list[tuple[np.ndarray, np.ndarray]] = []
        variance = 1 - 2 * self._share + self._sum(self._share**2)[node_bag]
        if places is not None:
            nodes = np.column_stack([self._centres(column, plan.share) for column in places.T])
            variance = self._factorise(nodes / REACH)
        self._scale = 1 / np.sqrt(np.maximum(variance, 1e-12))

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """So many draws (rows), one after the other."""
        normal = rng.standard_normal((len(self._bag), n))
        drawn = np.empty_like(normal) if self._groups else normal
        for at, root in self._groups:
            drawn[at] = root @ normal[at]
        for one in np.ascontiguousarray(drawn.T):
            about = one - self._sum(self._share * one)[self._bag]
            yield (about * self._scale).astype(np.float32)[self._node]

    def _sum(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._bag, values, self._n_bags)

    def _centres(self, column: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Means of the places of each node."""
        return np.bincount(self._node, column) / np.bincount(self._node)

    def _factorise(self, places: np.ndarray) -> np.ndarray:
        """Roots of the correlations of bags with as many nodes; variances of nodes about the mean of their bag."""
        sizes = np.bincount(self._bag, minlength=self._n_bags)
        starts = np.cumsum(sizes) - sizes
        variance = np.empty(len(places))
        for size in np.unique(sizes[sizes > 0]).tolist():
            bags = np.flatnonzero(sizes == size)
            most = max(MOST_NODES // size**2, 1)
            for some in np.split(bags, range(most, len(bags), most)):
                at = starts[some][:, None] + np.arange(size)
                root, with_mean = near_alike(places[at], self._share[at])
                variance[at] = 1 - 2 * with_mean + np.sum(self._share[at] * with_mean, axis=1, keepdims=True)
                self._groups.append((at, root))
        return variance
