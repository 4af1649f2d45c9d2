"""Which polygon covers which cell of a band of rows: found band by band, so that no list of all cells is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import shapely
from numpy.typing import NDArray

from vbagg.geo.grid import Grid
from vbagg.geo.overlay import overlay
from vbagg.geo.polygons import Polygons


@dataclass(frozen=True, eq=False)
class Cover:
    """Pairs of a polygon and a cell.

    Attributes
    ----------
    polygon
        Positions of polygons.
    cell
        Cell numbers on the whole grid.
    coverage
        Share of the cell that the polygon covers.
    """

    polygon: NDArray[np.intp]
    cell: NDArray[np.int64]
    coverage: NDArray[np.float64]

    @classmethod
    def of_rows(cls, polygons: Polygons, grid: Grid, rows: slice) -> Cover:
        """Cover of some rows of the grid; quick for polygons that are in the grid's CRS already."""
        band = grid.sub(rows)
        left, bottom, right, top = band.bounds
        bounds = shapely.bounds(polygons.geometry)
        near = np.flatnonzero(
            (bounds[:, 0] < right) & (bounds[:, 1] < top) & (bounds[:, 2] > left) & (bounds[:, 3] > bottom)
        )
        if not near.size:
            return cls(near, near.astype(np.int64), np.empty(0))
        pairs = overlay(replace(polygons, frame=polygons.frame.iloc[near]), band)
        return cls(
            near[pairs["polygon"].to_numpy()],
            pairs["cell"].to_numpy() + rows.start * grid.width,
            pairs["coverage"].to_numpy(),
        )

    def at(self, cells: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
        """Polygon, position in `cells` (ascending) and coverage of the pairs whose cell is among them."""
        inside = np.isin(self.cell, cells)
        return self.polygon[inside], np.searchsorted(cells, self.cell[inside]), self.coverage[inside]
