"""Totals of any polygons as sums over parts of the fitted ones, given the totals that were observed of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from vbagg.bags import Bags
from vbagg.geo.polygons import Polygons
from vbagg.geo.prepared import Prepared

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
TOUCH = 1e-6
"""Part of the smaller of two polygons below which they only touch."""


@dataclass(frozen=True)
class Parts:
    """Which cells of which fitted polygons make up other polygons."""

    prepared: Prepared
    others: Polygons

    def posterior(self, model: Any, pairs: pd.DataFrame, features: pd.DataFrame, weight: Floats) -> Any:
        """Posterior of the totals of the other polygons of `pairs`, numbered as they first come.

        `pairs` has the columns `polygon` and `cell`, sorted by polygon; `features` and `weight` are of its rows.
        A cell that several fitted polygons share belongs to those that the other one overlaps, as they cover it.
        """
        cell, polygon = pairs["cell"].to_numpy(), pairs["polygon"].to_numpy()
        area = np.cumsum(np.diff(polygon, prepend=-1) > 0) - 1
        at, row = self._rows_of(cell)
        overlapping = self._overlaps[polygon[at], self._bag_of_row[row]]
        at, row = at[overlapping], row[overlapping]
        covered = np.bincount(at, self._coverage[row], len(cell))
        share = self._coverage[row] / covered[at]
        outside = np.flatnonzero(covered == 0)
        bags = self.prepared.bags()
        if not len(outside):
            return model.posterior_areas(bags, row, area[at], weight[at] * share)
        X = np.vstack([bags.X, features.to_numpy()[outside]])
        names = np.array([f"outside of the fitted polygons, part {number}" for number in area[outside]], dtype=object)
        label = np.concatenate([bags.labels[bags.bag], names])
        every = Bags(pd.DataFrame(X, columns=list(bags.feature_names)), label, np.append(bags.weight, weight[outside]))
        place = np.empty(len(X), dtype=np.intp)
        place[every.rows] = np.arange(len(X))
        rows = np.append(place[row], place[bags.n_individuals + np.arange(len(outside))])
        own = np.append(weight[at] * share, weight[outside])
        return model.posterior_areas(every, rows, np.append(area[at], area[outside]), own)

    def _rows_of(self, cell: NDArray[np.int64]) -> tuple[Integers, Integers]:
        """Rows of the fitted bags in each of these cells: which cell (position), which row."""
        cells, rows = self._by_cell
        first, last = np.searchsorted(cells, cell, "left"), np.searchsorted(cells, cell, "right")
        number = last - first
        at = np.repeat(np.arange(len(cell)), number)
        within = np.arange(len(at)) - np.repeat(np.cumsum(number) - number, number)
        return at, rows[first[at] + within]

    @cached_property
    def _by_cell(self) -> tuple[NDArray[np.int64], Integers]:
        cell = self.prepared.bag_pixels["cell"].to_numpy()
        order = np.argsort(cell, kind="stable")
        return cell[order], order

    @cached_property
    def _coverage(self) -> Floats:
        return self.prepared.bag_pixels["coverage"].to_numpy()

    @property
    def _bag_of_row(self) -> Integers:
        return self.prepared.bags().bag

    @cached_property
    def _overlaps(self) -> NDArray[np.bool_]:
        """(others, bags) whether two polygons share more than a border."""
        crs = self.prepared.stack.grid.crs
        fitted, others = self.prepared.polygons.to(crs).geometry, self.others.to(crs).geometry
        place = pd.Index(self.prepared.polygons.labels).get_indexer(list(self.prepared.bags().labels))
        fitted = np.asarray(fitted)[place]
        own, other = shapely.STRtree(fitted).query(np.asarray(others), predicate="intersects")[::-1]
        shared = shapely.area(shapely.intersection(fitted[own], np.asarray(others)[other]))
        least = np.minimum(shapely.area(fitted[own]), shapely.area(np.asarray(others)[other]))
        found = np.zeros((len(others), len(fitted)), dtype=bool)
        found[other[shared > TOUCH * least], own[shared > TOUCH * least]] = True
        return found
