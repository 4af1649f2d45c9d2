"""Which polygon covers which cell, as `prepare` found it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vbagg.geo.prepared import Prepared

Pairs = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]


class Cover:
    """Pairs of a polygon and a cell that has all covariates, for any rows of the grid."""

    def __init__(self, prepared: Prepared) -> None:
        self._grid, self._labels = prepared.stack.grid, prepared.polygons.labels
        self._pixels = prepared.pixels

    def rows(self, rows: slice) -> tuple[NDArray[np.int64], Pairs]:
        """Cells of some rows in order, each once; and their pairs: polygon, position among these cells, coverage."""
        cell, order = self._by_cell
        first, last = np.searchsorted(cell, [rows.start * self._grid.width, rows.stop * self._grid.width])
        pairs = self._pixels.iloc[np.sort(order[first:last])]
        cells, place = np.unique(pairs["cell"].to_numpy(), return_inverse=True)
        polygon = pd.Index(self._labels).get_indexer(pairs["polygon"])
        return cells, (polygon, place, pairs["coverage"].to_numpy())

    @cached_property
    def _by_cell(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        cell = self._pixels["cell"].to_numpy()
        order = np.argsort(cell, kind="stable")
        return cell[order], order
